"""The Python API: what the commands do, as methods that return values.

``GroupAdmin`` is the way in (``from kgtool import GroupAdmin``). ``looking`` has the methods that
only look, ``admin`` those that change something, ``connection`` what both stand on, ``recorder``
the journal, ``connect`` makes settings of arguments, ``targets`` translates all other arguments.
"""

from __future__ import annotations

from kgtool.groupadmin.admin import GroupAdmin

__all__ = ["GroupAdmin"]
