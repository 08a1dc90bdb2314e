"""The nearest word to one that was mistyped: a command, option, group or topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_OTHER_WORDS = {
    "jsonl": "ndjson",
    "format": "output",
    "start": "up",
    "stop": "down",
    "get": "list",
    "seek": "reset-offsets",
    "rm": "delete",
    "del": "delete",
    "current": "show",
    "run": "apply",
    "ls": "status",
    "table": "text",
}
"""Words of other tools: kubectl, rpk, kcl, docker."""
COMMANDS_FOR = {
    "members": "describe --members",
    "member": "describe --members",
    "state": "describe --state",
    "offsets": "describe",
    "offset": "describe",
    "show": "describe",
    "topics": "lag --by topic",
    "topic": "lag --by topic",
    "consumers": "describe --members",
    "partitions": "lag --by partition",
    "shift": "reset-offsets --shift-by",
    "commits": "describe --expiry",
    "status": "lag",
    "info": "describe",
    "watch": "lag --watch",
    "consume": "peek",
    "login": "context add",
    "cluster": "doctor",
    "brokers": "doctor",
    "health": "doctor",
    "check": "doctor",
    "expiry": "describe --expiry",
    "log": "undo --list",
    "journal": "undo --list",
    "logs": "explain",
    "events": "explain",
    "why": "explain",
    "copy": "backup, then restore --map-group OLD=NEW",
    "clone": "backup, then restore --map-group OLD=NEW",
    "rename": "backup, then restore --map-group OLD=NEW",
    "move": "backup, then restore --map-group OLD=NEW",
    "commit": "reset-offsets --to-offset N",
    "redo": "undo last, which undoes an undo",
    "rollback": "undo last",
    "revert": "undo last",
    "policy": "help safety",
    "lock": "help safety",
    "config": "context, or configs of a group",
    "profile": "context",
    "profiles": "context",
    "find-coordinator": "coordinator",
    "api": "request",
    "apis": "request --list",
    "rates": "lag --rates",
    "rate": "lag --rates",
    "throughput": "lag --rates",
    "report": "analyze --report FILE.html",
    "html": "analyze --report FILE.html",
    "stale": "cleanup plan --idle 30d",
    "prune": "cleanup plan",
    "purge": "cleanup plan",
    "gc": "cleanup plan",
    "expire": "describe --expiry",
    "retain": "keep, or retention",
    "ttl": "retention",
    "seed": "sandbox seed",
    "metrics": "exporter",
    "prometheus": "exporter",
    "migrate": "backup, then restore --other-cluster",
    "mirror": "backup, then restore --other-cluster",
    "create": "reset-offsets --create",
    "replay": "reset-offsets --to TIME",
    "rewind": "reset-offsets --to TIME",
    "evict": "remove-members",
    "kick": "remove-members",
    "stuck": "lag --rates",
    "lost": "recover",
    "gone": "recover",
    "expired": "recover",
}
"""Words that are typed as a command, and what shows or does it."""
OPTIONS_FOR = {
    "e": "--execute",
    "m": "--members",
    "p": "--topic TOPIC:0,1",
    "s": "--bootstrap-server",
    "V": "--version",
    "all": "--all-groups",
    "a": "--all-groups",
    "n": "--limit",
    "l": "--limit",
    "as": "--map-group OLD=NEW",
    "to-group": "--map-group OLD=NEW",
    "rename": "--map-group OLD=NEW",
    "threshold": "--lag '>N'",
    "older-than": "--idle DURATION",
    "X": "--command-config FILE",
    "config": "--command-config FILE",
    "properties": "--command-config FILE",
    "top": "--limit",
    "head": "--limit",
    "reverse": "--sort -COLUMN",
    "desc": "--sort -COLUMN",
    "min-lag": "--lag '>N'",
    "filter": "--match GLOB",
    "grep": "--match GLOB",
    "search": "--match GLOB",
    "beginning": "--to-earliest",
    "to-beginning": "--to-earliest",
    "from-beginning": "--to-earliest",
    "end": "--to-latest",
    "to-end": "--to-latest",
    "shift": "--shift-by",
    "by": "--shift-by",
    "partition": "--topic TOPIC:0,1",
    "partitions": "--topic TOPIC:0,1",
    "server": "--bootstrap-server",
    "broker": "--bootstrap-server",
    "brokers": "--bootstrap-server",
    "broker-list": "--bootstrap-server",
    "file": "--out",
    "last": "--by-duration DURATION",
    "since": "--to-datetime TIME, --at TIME",
    "age": "--idle DURATION",
    "selector": "--match GLOB",
}
"""Names that options have in other tools, and kgtool's: the first that the command has."""
INSTEAD = {
    "once": "kgtool lag prints one look",
    "batch": "kgtool lag prints one look",
    "show-labels": "groups have no labels; --match GLOB chooses by name",
    "L": "groups have no labels; --match GLOB chooses by name",
}
"""Options of other tools for which no option stands, and what does it."""


def did_you_mean(
    word: str, known: Iterable[str], cutoff: float = 0.6, shown: Callable[[str], str] = str
) -> str:
    """Return the end of a sentence that names the nearest word; empty if none is near.

    :param shown: writes the word, an option with its hyphens for example.

    >>> did_you_mean("JSN", ["text", "json", "ndjson"]), did_you_mean("zebra", ["text"])
    (' (did you mean json?)', '')
    """
    near = nearest(word, known, cutoff)
    return "" if near is None else f" (did you mean {shown(near)}?)"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the word that was probably meant; None if none is near.

    >>> nearest("biling", ["billing", "payments"])
    'billing'
    """
    from difflib import get_close_matches

    names = {name.lower(): name for name in sorted(known)}
    word = word.lower()
    if (other := _OTHER_WORDS.get(word, "")) in names:
        return names[other]
    # A prefix comes first: reset is reset-offsets, although restore is nearer.
    longer = [name for name in names if len(word) > 1 and name.startswith(f"{word}-")]
    near = longer[:1] or get_close_matches(word, names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def other_option(name: str, options: Iterable[str]) -> str:
    """Return the end of a refusal that names what other tools call so; empty if there is none.

    >>> other_option("p", ["topic"]), other_option("p", ["group"])
    (' (did you mean --topic TOPIC:0,1?)', '')
    """
    if name in INSTEAD:
        return f": {INSTEAD[name]}."
    known = set(options) - {""}
    others = OPTIONS_FOR.get(name, "").split(", ")
    found = [other for other in others if other[2:].split(" ")[0] in known]
    return f" (did you mean {found[0]}?)" if found else ""
