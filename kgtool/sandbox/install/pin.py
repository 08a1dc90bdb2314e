"""A jar as the committed lists name it."""

from __future__ import annotations

from typing import NamedTuple


class Pin(NamedTuple):
    """One jar as it must be: SHA-256 (hex), bytes, Maven coordinates."""

    sha256: str
    size: int
    group: str
    artifact: str
    revision: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """The name in Maven's repository layout."""
        return "-".join(filter(None, (self.artifact, self.revision, self.classifier))) + ".jar"
