"""The Python API: what the commands do, as methods that return values.

``GroupAdmin`` is the way in (``from kgtool import GroupAdmin``). ``looking`` and ``asking`` have
the methods that only look, ``restoring`` those of journals and backups, ``cleaning`` those of
plans, ``admin`` those that change something, ``connection`` what all stand on, ``recorder`` the
journal, ``configuring`` the configs of groups, ``connect`` makes settings of arguments,
``targets`` translates all other arguments.
"""

from __future__ import annotations

from kgtool.groupadmin.admin import GroupAdmin

__all__ = ["GroupAdmin"]
