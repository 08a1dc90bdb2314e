"""The columns of every command that changes something."""

from __future__ import annotations

from kgtool.columns import (
    FLAG,
    INT,
    INT_OR_NULL,
    NAME,
    PLAIN,
    STATUS,
    TEXT,
    TEXT_OR_NULL,
    Column,
    Row,
    Text,
    machine,
)
from kgtool.columns.groups import GROUP, NEVER, PARTITION, RULE, TOPIC, UNKNOWN
from kgtool.text import moment

ERROR = Column("error", json="error?")
_OLD = Column("old_offset", "OLD-OFFSET", json=INT_OR_NULL)
_NEW = Column("new_offset", "NEW-OFFSET", json=INT_OR_NULL)
_OPEN = ("changed-meanwhile", "unknown", "failed", "not-reached")
"""What every change may come to that was not done."""


def _status(*words: str, text: Text | None = None, kind: str = PLAIN) -> Column:
    return Column("status", "STATUS", kind, text, json=TEXT, words=(*words, *_OPEN))


def failed_text(row: Row) -> str:
    """Return the cell of STATUS: what it is, or why it failed."""
    error = row["error"]
    return str(row["status"]) if error is None else f"failed: {error['name']}"


DELETE = (GROUP, _status("deleted", "would-delete"), ERROR)
DELETE_OFFSETS = (
    GROUP,
    TOPIC._replace(json=TEXT_OR_NULL),  # None: nothing of the group was looked at
    Column("partition", "PARTITION", json=INT_OR_NULL),
    _status("deleted", "no-offset", "would-delete"),
    ERROR,
)
RESET = (
    GROUP,
    TOPIC,
    Column("partition", "PARTITION", json=INT_OR_NULL),
    Column("old_offset", "CURRENT-OFFSET", json=INT_OR_NULL),
    _NEW,
    Column("records_replayed", "REPLAYED", spare=2, json=INT_OR_NULL),
    Column("records_skipped", "SKIPPED", spare=1, json=INT_OR_NULL),
    Column("clamped", "CLAMPED", spare=3, json=FLAG),
    _status("reset", "would-reset", "no-commit", "skipped"),
)
RESTORE = (
    GROUP,
    TOPIC,
    PARTITION,
    _OLD,
    _NEW,
    _status(
        "restored",
        "deleted",
        "unchanged",
        "skipped",
        "would-restore",
        "would-delete",
        text=failed_text,
    ),
    Column("note"),
    ERROR,
)
"""Also of ``undo``."""
_DIFFERENCES = ("moved", "went-backwards", "vanished", "new", "changed", "topic-recreated")
DIFF = (
    GROUP,
    TOPIC,
    PARTITION,
    _OLD,
    _NEW,
    Column("difference", "DIFFERENCE", json=INT_OR_NULL),
    Column("status", "STATUS", json=TEXT, words=_DIFFERENCES),
)
BACKUP = machine(path=TEXT, groups=INT, offsets=INT, bytes=INT, seconds="number")
HISTORY = (
    Column("id", "ID", json=TEXT),
    Column("at_ms", "TIME", spare=4, json=INT, text=lambda row: moment(row["at_ms"])),
    Column("command", "COMMAND", json=TEXT),
    Column("cluster_id", "CLUSTER", NAME, spare=3),
    Column("groups", "GROUPS", json=INT),
    Column("changes", "CHANGES", json=INT),
    Column("state", "STATE", json=TEXT, words=("done", "interrupted", "undone", "running")),
)
HISTORY_TEXT = (
    *HISTORY,
    Column("by", "BY", NAME, spare=1),
    Column("reason", "REASON", NAME, spare=2),
)

# -- keep -----------------------------------------------------------------------------------------

_KEPT = {
    "would-keep": "would be kept",
    "kept": "kept",
    "not-needed": "not needed",
    "failed": "failed",
    "changed-meanwhile": "changed meanwhile",
    "unknown": "unknown",
}


def _kept_time(key: str) -> Text:
    def text(row: Row) -> str:
        if row[key] is not None:
            return moment(row[key])
        if key == "new_expires_at_ms" and row["status"] != "kept":
            return "-"
        return NEVER if row["rule"] is not None else UNKNOWN

    return text


def _expires(key: str, header: str, spare: int = 0) -> Column:
    return Column(key, header, PLAIN, _kept_time(key), spare, INT_OR_NULL)


KEEP = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "OFFSET", json=INT),
    RULE._replace(spare=2),
    _expires("old_expires_at_ms", "OLD-EXPIRES-AT", 1),
    _expires("new_expires_at_ms", "NEW-EXPIRES-AT"),
    Column("how"),
    Column("status", "STATUS", STATUS, lambda row: _KEPT[row["status"]], json=TEXT,
           words=tuple(_KEPT)),
    ERROR,
)  # fmt: skip

# -- configs and members --------------------------------------------------------------------------

CONFIGS = (
    GROUP,
    Column("name", "CONFIG", NAME, json=TEXT),
    Column("value", "VALUE", NAME),
    Column("default", "DEFAULT", NAME),
    Column("source", "SOURCE", json=TEXT),
    Column("type", json=TEXT),
    Column("documentation"),
)
CONFIGS_ALTER = (
    GROUP,
    Column("name", "CONFIG", NAME, json=TEXT),
    Column("old_value", "OLD-VALUE", NAME),
    Column("new_value", "NEW-VALUE", NAME),
    _status("altered", "unchanged", "would-alter", text=failed_text),
    ERROR,
)


def _removed(row: Row) -> str:
    return "would be removed" if row["status"] == "would-remove" else str(row["status"])


MEMBERS = (
    GROUP,
    Column("member_id", "CONSUMER-ID", NAME, spare=3),
    Column("group_instance_id", "GROUP-INSTANCE-ID", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME),
    Column("host", "HOST", NAME, spare=1),
    _status("removed", "would-remove", text=_removed),
    ERROR,
)

# -- cleanup --------------------------------------------------------------------------------------


def _when(key: str) -> Text:
    return lambda row: None if row[key] is None else moment(row[key])


CLEANUP_PLAN = (
    Column("action", "ACTION", json=TEXT),
    GROUP,
    Column("type"),
    Column("state"),
    Column("offsets", "OFFSETS", json=INT),
    Column("lag", "LAG", json=INT_OR_NULL,
           text=lambda row: "unknown" if row["lag"] is None else str(row["lag"])),
    Column("last_commit_ms", "LAST-COMMIT", PLAIN, _when("last_commit_ms"), 2, INT_OR_NULL),
    Column("expires_at_ms", "EXPIRES-AT", PLAIN, _when("expires_at_ms"), 1, INT_OR_NULL),
    Column("why", "WHY", NAME, lambda row: "; ".join(row["why"]), 3, "strings"),
)  # fmt: skip
APPLIED = {
    "deleted": "deleted", "rebuilt": "rebuilt", "gone": "gone already", "skipped": "left alone",
    "failed": "failed", "waiting": "to wait for", "done-before": "done before",
    "would-delete": "would be deleted", "would-rebuild": "would be rebuilt",
    "not-reached": "not reached",
}  # fmt: skip
"""What the statuses of ``cleanup apply`` are called for people."""
CLEANUP_APPLY = (
    Column("action", "ACTION", json=TEXT),
    GROUP,
    Column("offsets", "OFFSETS", json=INT),
    Column("status", "STATUS", PLAIN, lambda row: APPLIED[row["status"]], json=TEXT,
           words=tuple(APPLIED)),
    Column("reason", "REASON", NAME, spare=1),
    ERROR,
)  # fmt: skip
