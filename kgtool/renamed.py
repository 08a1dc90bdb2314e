"""Old and other names of options, which work everywhere and stand in no help."""

from __future__ import annotations

OPTIONS = {
    "all": "all-groups",
    "committed": "read-committed",
    "max-delete": "max-groups",
    "no-lag": "caught-up",
    "allow-blind": "skip-activity-check",
    "wrote": "retention-was",
    "shift": "shift-by",
    "sort-by": "sort",
}
"""Names without dashes, where a command has no option of its own that is called so."""
