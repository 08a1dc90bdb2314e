"""Where the profiles are; a run without any looks no further."""

from __future__ import annotations

import os


def contexts_file() -> str:
    """Return the path of the profiles: ``~/.config/kgtool/contexts.toml``."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says that relative values are to be ignored.
    if not base.startswith("/"):
        base = os.path.expanduser("~/.config")  # noqa: PTH111 - pathlib costs start-up time
    return f"{base}/kgtool/contexts.toml"
