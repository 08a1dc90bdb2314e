"""The columns of the commands that change something."""

from __future__ import annotations

from kgtool.columns import COUNT, NAME, STATUS, TEXT, Column, Results, Row, Text, machine, written
from kgtool.columns.groups import GROUP, NEVER, PARTITION, RULE, TOPIC, UNKNOWN
from kgtool.text import moment

ERROR = Column("error", json="error?")
_OLD = Column("old_offset", "OLD-OFFSET", json="integer?")
_NEW = Column("new_offset", "NEW-OFFSET", json="integer?")
_OPEN = ("changed-meanwhile", "unknown", "failed", "not-reached")
"""Statuses of all changes that were not made, or not known to be."""


def _status(*words: str, text: Text | None = None) -> Column:
    return Column("status", "STATUS", STATUS, text, json="string", words=(*words, *_OPEN))


def failed_text(row: Row) -> str:
    """Return the cell of STATUS: the status, or the name of the error."""
    error = row["error"]
    return str(row["status"]) if error is None else f"failed: {error['name']}"


DELETE = (GROUP, _status("deleted", "would-delete", "skipped"), ERROR)
DELETE_TOPICS = (GROUP, TOPIC, _status("deleted", "would-delete", "kept", "skipped"), ERROR)
"""Of ``delete --internal-topics``: a row for each topic, after its group's."""
DELETE_OFFSETS = (
    GROUP,
    TOPIC._replace(json="string?"),  # None: nothing of the group was looked at
    Column("partition", "PARTITION", json="integer?"),
    _status("deleted", "no-offset", "would-delete", "skipped", text=failed_text),
    ERROR,
)
RESET = (
    GROUP,
    TOPIC,
    Column("partition", "PARTITION", json="integer?"),
    Column("old_offset", "CURRENT-OFFSET", spare=2, json="integer?"),
    _NEW,
    Column("records_replayed", "REPLAYED", COUNT, json="integer?"),
    Column("records_skipped", "SKIPPED", COUNT, json="integer?"),
    Column("clamped", "CLAMPED", spare=1, json="boolean"),
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


def _at(key: str, header: str, spare: int) -> Column:
    return Column(key, header, text=written(key, moment), spare=spare, json="integer?")


RECOVER = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "OFFSET", json="integer?"),
    Column("metadata"),
    _at("committed_at_ms", "COMMITTED-AT", 3),
    _at("removed_at_ms", "REMOVED-AT", 4),
    Column("cause", "CAUSE", spare=2, words=("expired", "group-empty", "converted", "explicit")),
    RULE._replace(spare=1),
    Column("current_offset", "CURRENT-OFFSET", spare=5, json="integer?"),
    *machine(log_start_offset="integer?", log_end_offset="integer?"),
    _status(
        "restored",
        "exists",
        "out-of-range",
        "topic-gone",
        "topic-recreated",
        "not-in-log",
        "skipped",
        "would-restore",
    ),
    ERROR,
)
_DIFFERENCES = ("moved", "went-backwards", "vanished", "new", "changed", "topic-recreated")
DIFF = (
    GROUP,
    TOPIC,
    PARTITION,
    _OLD,
    _NEW,
    Column("difference", "DIFFERENCE", json="integer?"),
    Column("status", "STATUS", json="string", words=_DIFFERENCES),
)
BACKUP = machine(
    path="string", groups="integer", offsets="integer", bytes="integer", seconds="number"
)
HISTORY = (
    Column("id", "ID", json="string"),
    Column("at_ms", "TIME", spare=4, json="integer", text=lambda row: moment(row["at_ms"])),
    Column("command", "COMMAND", json="string"),
    Column("cluster_id", "CLUSTER", NAME, spare=3),
    Column("groups", "GROUPS", json="integer"),
    Column("changes", "CHANGES", json="integer"),
    Column("state", "STATE", json="string", words=("done", "interrupted", "undone", "running")),
)
HISTORY_TEXT = (
    *HISTORY,
    Column("by", "BY", NAME, spare=1),
    Column("reason", "REASON", NAME, spare=2),
)

# -- keep -----------------------------------------------------------------------------------------


def _kept_time(key: str) -> Text:
    def text(row: Row) -> str:
        if row[key] is not None:
            return moment(row[key])
        if key == "new_expires_at_ms" and row["status"] != "kept":
            return "-"
        return NEVER if row["rule"] is not None else UNKNOWN

    return text


def _expires(key: str, header: str, spare: int = 0) -> Column:
    return Column(key, header, text=_kept_time(key), spare=spare, json="integer?")


KEEP = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "OFFSET", json="integer"),
    RULE._replace(spare=2),
    _expires("old_expires_at_ms", "OLD-EXPIRES-AT", 1),
    _expires("new_expires_at_ms", "NEW-EXPIRES-AT"),
    Column("how"),
    Column(
        "status",
        "STATUS",
        STATUS,
        json="string",
        words=("would-keep", "kept", "not-needed", *_OPEN[:3], "skipped"),
    ),
    ERROR,
)

# -- retention ------------------------------------------------------------------------------------

RETENTION = (
    GROUP,
    TOPIC._replace(json="string?"),  # None: all of a group, which no rule names
    Column("partition", "PARTITION", json="integer?"),
    Column("rule", "RULE", NAME, spare=2),
    *machine(retention_ms="integer?"),
    _at("expires_at_ms", "EXPIRES-AT", 3),
    Column(
        "action",
        "ACTION",
        json="string",
        spare=1,
        words=("keep", "delete-offsets", "delete-group", "none"),
    ),
    *machine(at_ms="integer?"),
    _status(
        "due",
        "waiting",
        "refused",
        "left-to-broker",
        "not-expiring",
        "has-members",
        "would-keep",
        "kept",
        "not-needed",
        "would-delete",
        "deleted",
        "gone",
        "skipped",
        "done-before",
        "lost",
        text=lambda row: "lost" if row["status"] == "lost" else failed_text(row),
    ),
    ERROR,
)
RETENTION_GROUPS = (
    GROUP,
    Column("rule", "RULE", NAME, spare=2),
    Column("retention", "RETENTION"),
    Column("offsets", "OFFSETS", COUNT, json="integer", spare=1),
    Column("next", "NEXT", TEXT),
)
"""The text of ``retention show``: one line a group."""

# -- configs and members --------------------------------------------------------------------------

CONFIGS = (
    GROUP,
    Column("name", "CONFIG", json="string"),
    Column("value", "VALUE", NAME),
    Column("default", "DEFAULT", NAME, spare=1),
    Column("source", "SOURCE", json="string"),
    Column("type", json="string"),
    Column("documentation"),
)
CONFIGS_ALTER = (
    GROUP,
    Column("name", "CONFIG", json="string"),
    Column("old_value", "OLD-VALUE", NAME),
    Column("new_value", "NEW-VALUE", NAME),
    _status("altered", "unchanged", "would-alter", text=failed_text),
    ERROR,
)


MEMBERS = (
    GROUP,
    Column("member_id", "CONSUMER-ID", NAME, spare=3),
    Column("group_instance_id", "GROUP-INSTANCE-ID", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME),
    Column("host", "HOST", NAME, spare=1),
    _status("removed", "would-remove", "skipped"),
    ERROR,
)

# -- cleanup --------------------------------------------------------------------------------------


CLEANUP_PLAN = (
    Column("action", "ACTION", json="string"),
    GROUP,
    Column("type"),
    Column("state"),
    Column("offsets", "OFFSETS", json="integer"),
    Column(
        "lag",
        "LAG",
        json="integer?",
        text=lambda row: "unknown" if row["lag"] is None else str(row["lag"]),
    ),
    Column(
        "last_commit_ms",
        "LAST-COMMIT",
        text=written("last_commit_ms", moment),
        spare=2,
        json="integer?",
    ),
    Column(
        "expires_at_ms",
        "EXPIRES-AT",
        text=written("expires_at_ms", moment),
        spare=1,
        json="integer?",
    ),
    Column("why", "WHY", TEXT, lambda row: "; ".join(row["why"]), json="strings"),
)
APPLIED = (
    "deleted",
    "rebuilt",
    "gone",
    "skipped",
    "failed",
    "waiting",
    "done-before",
    "would-delete",
    "would-rebuild",
    "not-reached",
)
"""The statuses of ``cleanup apply``."""
CLEANUP_APPLY = (
    Column("action", "ACTION", json="string"),
    GROUP,
    Column("offsets", "OFFSETS", json="integer"),
    Column("status", "STATUS", STATUS, json="string", words=APPLIED),
    Column("reason", "REASON", TEXT),
    ERROR,
)

RESULTS = {
    "delete": Results({"groups": DELETE, "internal-topics": DELETE_TOPICS}),
    "delete-offsets": Results({"offsets": DELETE_OFFSETS}),
    "reset-offsets": Results({"offsets": RESET}),
    "backup": Results({"file": BACKUP}),
    "restore": Results({"offsets": RESTORE}),
    "undo": Results({"offsets": RESTORE, "configs": CONFIGS_ALTER}),
    "recover": Results({"offsets": RECOVER}),
    "diff": Results({"offsets": DIFF}),
    "history": Results({"changes": HISTORY}),
    "retention": Results({"offsets": RETENTION}),
    "cleanup": Results({"plan": CLEANUP_PLAN, "apply": CLEANUP_APPLY}),
    "configs": Results({"describe": CONFIGS, "alter": CONFIGS_ALTER}),
    "keep": Results({"offsets": KEEP}),
    "remove-members": Results({"members": MEMBERS}),
}
