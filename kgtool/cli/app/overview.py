"""The text of ``kgtool --help``, made without Click, which takes longer to import.

The options of Kafka's form are declared here; ``argv`` and ``kafka_form`` are made of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.cli.commands import ALSO, SECTIONS

_WIDTH = 79

OWN_OPTIONS = {
    "-b, --bootstrap-server HOST:PORT": "The brokers to ask first, with commas "
    "(also KGTOOL_BOOTSTRAP_SERVER).",
    "--command-config FILE": "A Java properties file with the client's configuration.",
    "--context NAME": "A connection profile (kgtool context; also KGTOOL_CONTEXT).",
    "--timeout TIME": "How long the whole command may take: 30s (default), 2m; 500 is ms.",
    "-o, --output FORMAT": "text, wide, json, ndjson, csv, yaml or name.",
    "--no-color": "Never use colours (also NO_COLOR).",
    "--debug": "Show tracebacks, and every message to and from brokers.",
    "-h, --help": "Show this help; after a command, that command's.",
    "--version": "Show the version.",
}

KAFKA_OPTIONS = {
    "--list": "List all consumer groups.",
    "--describe": "Describe groups: --offsets (default), --members or --state.",
    "--delete": "Delete groups that have no members.",
    "--delete-offsets": "Delete the committed offsets of --topic, of one or more groups.",
    "--reset-offsets": "Set the committed offsets of groups that have no members.",
    "--validate-regex RE": "Check a regular expression as brokers read it (RE2).",
    "-g, --group GROUP": "A group's exact name; repeatable.",
    "-A, --all-groups": "All groups that --list shows.",
    "--match GLOB": "Groups that match (* ? [a-z]); repeatable.",
    "--regex RE": "Groups whose whole name matches (RE2).",
    "--exclude GLOB": "But not groups whose name matches; repeatable.",
    "-t, --topic TOPIC[:0,1]": "A topic, or some of its partitions; repeatable.",
    "--all-topics": "With --reset-offsets: every partition with a committed offset.",
    "--state [STATES]": "With --list: show, or select by, state. With --describe: the state.",
    "--type [TYPES]": "With --list: show, or select by, type (classic, consumer).",
    "--expiring-within TIME": "With --list: groups that lose offsets within 48h, 7d; status 5.",
    "--members": "With --describe: the members.",
    "--offsets": "With --describe: the committed offsets and the lag.",
    "-v, --verbose": "With --describe: more columns.",
    "-n, --dry-run": "Show what would be done, and do nothing.",
    "-y, --yes": "Do not ask (Kafka's form never asks).",
    "--reason TEXT": "Why something is changed: kept in the journal.",
    "--confirm CLUSTER_ID": "Change this cluster, although protected (also KGTOOL_CONFIRM).",
    "--journal-copy URL": "Keep the journal there too: s3://...",
    "--max-groups N": "Change nothing if more than N groups would change.",
    "--canary N": "Change N groups first, and stop if one of them failed.",
    "--force": "Do what Kafka's tool would do, for groups of other types too.",
    "--execute": "With --reset-offsets: do it.",
    "--export": "With --reset-offsets: print CSV.",
    "--from-file FILE": "With --reset-offsets: take the offsets from a CSV file.",
    "--to-offset N": "With --reset-offsets: to this offset.",
    "--shift-by N": "With --reset-offsets: by this many records, forwards or back.",
    "--to-datetime TIME": "With --reset-offsets: to the first record from this time on.",
    "--by-duration DURATION": "With --reset-offsets: back by a duration: 1d12h, P1D.",
    "--to-earliest": "With --reset-offsets: to the start of the log.",
    "--to-latest": "With --reset-offsets: to the end of the log.",
    "--to-current": "With --reset-offsets: to where it is.",
    "--like GROUP": "With --reset-offsets: to where another group is.",
    "--create": "With --reset-offsets: create missing groups.",
    "--wait-empty TIME": "With --reset-offsets: wait up to 60s, 5m for groups to become empty.",
    "--all-or-nothing": "Change nothing unless all of it can be done.",
}


VIEW_OPTIONS = {
    "--lagging": "Only partitions with something left to read.",
    "--lag RANGE": "Only with a lag in this range: '>1000', '<5'.",
    "--by group|topic|partition": "One row for each: partitions, lag, largest lag.",
    "--time-lag": "Also the age of the first unread record.",
    "--loses-within TIME": "Only where unread records are lost that soon.",
    "--rates": "Also records per second in and out, and ETA.",
    "--over TIME": "With --rates: averages over this time (10m).",
    "--expiry": "When offsets were committed and expire, and why.",
    "--read-committed": "Lag to the last stable offset (read_committed).",
    "--totals": "Sums per group and topic instead of partitions.",
    "--columns NAME,...": "Only these columns, in this order.",
    "--sort NAME": "One table, sorted by a column, the largest lag first; -NAME: the other way.",
    "--limit N": "Only the first N rows.",
    "--no-headers": "No header line.",
    "-w, --watch TIME": "Refresh every 5s (default), 1m, and show what changes; q ends it.",
    "--prometheus FILE": "Also write lag, members and states for a Prometheus file collector.",
}
"""kgtool's own options of ``describe``, in both forms."""


EXAMPLES = (
    "kgtool sandbox up && kgtool sandbox seed",
    "export KGTOOL_BOOTSTRAP_SERVER=b1:9092,b2:9092",
    "kgtool lag",
    "kgtool describe billing 'payments-*'",
    "kgtool delete-offsets billing --topic payments:0,1 --dry-run",
    "kgtool --bootstrap-server b1:9092 --describe --group billing",
)


SAFETY = (
    "-n, --dry-run",
    "-y, --yes",
    "--max-groups N",
    "--canary N",
    "--all-or-nothing",
    "--reason TEXT",
    "--confirm CLUSTER_ID",
    "--journal-copy URL",
)
"""The options of every change."""
_HEAD = (
    "Usage: kgtool [OPTIONS] COMMAND [ARGS]...",
    "   or: kgtool --bootstrap-server HOST:PORT --list|--describe|... (Kafka's form)",
    "",
    "Administer Kafka consumer groups and their committed offsets.",
)


def overview() -> str:
    """Return the help text of the program: what people look for, on one screen."""
    return "\n".join(
        (
            *_HEAD,
            *_sections(name for name in SECTIONS if name != ALSO),
            "",
            "Everywhere:",
            "  -b, --bootstrap-server HOST:PORT   or KGTOOL_BOOTSTRAP_SERVER, or a context",
            "  -o, --output FORMAT                text, wide, json, ndjson, csv, yaml, name",
            "",
            "Begin: export KGTOOL_BOOTSTRAP_SERVER=$(kgtool sandbox up)",
            "       kgtool sandbox seed; kgtool lag",
            "More:  kgtool help all|COMMAND|safety|kafka, kgtool man COMMAND",
            "",
        )
    )


def safety_help() -> str:
    """Return the help text of the options of every change."""
    return "\n".join(
        (
            "Safety: what every change does, and its options in both forms",
            "",
            "Before any change, the current offsets are saved to a journal: kgtool undo ID",
            "restores them, kgtool undo --list shows the changes. On a terminal a change",
            "shows a preview and asks for confirmation; without one it takes --yes. Kafka's",
            "form never asks. Of more than 20 results a terminal shows failures and a total,",
            "with -v all.",
            "",
            *_block({name: KAFKA_OPTIONS[name] for name in SAFETY}, 26),
            "",
            "A policy (KGTOOL_POLICY or the context's) protects groups, limits changes and",
            "forbids options; a protected context's name is typed. See docs/safety.rst.",
            "",
        )
    )


def _sections(names: Iterable[str]) -> list[str]:
    parts = (("", f"{name}:", *_block(SECTIONS[name], 18)) for name in names)
    return [line for part in parts for line in part]


def full_overview() -> str:
    """Return the help text with every command and option."""
    return "\n".join(
        (
            *_HEAD,
            *_sections(SECTIONS),
            "",
            "Options, before or after the command:",
            *_block(OWN_OPTIONS, 38),
            "",
            "Examples:",
            *(f"  {line}" for line in EXAMPLES),
            "",
            "More: kgtool help COMMAND, safety or kafka (Kafka's form); kgtool man COMMAND;",
            "kgtool --help-json: all of it for programs.",
            "",
        )
    )


def parts(declared: str) -> tuple[str, str]:
    """Return the option's long name without dashes, and its value: ``-g, --group GROUP``."""
    name, _, value = declared.rpartition("--")[2].partition(" ")
    return name, value


def kafka_help() -> str:
    """Return the help text of Kafka's form."""
    return "\n".join(
        (
            "Usage: kgtool --bootstrap-server HOST:PORT ACTION [OPTIONS]...",
            "",
            "Kafka's form takes one action and the options of kafka-consumer-groups.sh 4.3.1:",
            *_block(KAFKA_OPTIONS, 34),
            "",
            "With --describe, also (as for kgtool describe):",
            *_block(VIEW_OPTIONS, 34),
            "",
            "Everywhere:",
            *_block(OWN_OPTIONS, 38),
            "",
        )
    )


def _block(entries: dict[str, str], column: int) -> list[str]:
    lines = []
    for name, text in entries.items():
        line = f"  {name}".ljust(column)
        for word in text.split():
            if len(line) + len(word) > _WIDTH:
                lines.append(line.rstrip())
                line = " " * column
            line += f"{word} "
        lines.append(line.rstrip())
    return lines
