"""kgtool: an admin toolkit for Kafka consumer groups and their committed offsets.

Importing this package costs nothing: it holds the version and nothing else.
"""

from __future__ import annotations

__version__ = "0.1.0"
