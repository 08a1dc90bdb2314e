"""The files that come with the program: completions and man pages.

In a checkout they are where `make docs` puts them, in an installed copy within the package.
"""

from __future__ import annotations

from pathlib import Path

import kgtool
from kgtool.errors import KgError


def path(folder: str, name: str) -> Path:
    """Return where a file is.

    :raises KgError: this installation lacks it.
    """
    package = Path(kgtool.__file__).parent
    for base in (package / "shipped", package.parent):
        found = base / folder / name
        if found.is_file():
            return found
    raise KgError(
        f"This installation of kgtool lacks the file {folder}/{name}.",
        hint="Install it again from a wheel or a checkout.",
    )
