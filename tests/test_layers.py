"""Who may import whom: a walk over every import, those inside functions too."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.imports import imports_of, module_of

ROOT = Path(__file__).parents[1] / "kgtool"

OPEN = {
    "kgtool",
    "kgtool.errors",
    "kgtool.model",
    "kgtool.text",
    "kgtool.timespec",
    "kgtool.columns",
    "kgtool.json_rows",
    "kgtool.durable",
    "kgtool.held",
    "kgtool.class_archive",
    "kgtool.metrics",
    "kgtool.renamed",
    "kgtool.protocol",
    "kgtool.protocol.codes",
}
"""Everybody may import these; they import nothing of kgtool but each other."""

READING = ("protocol", "client", "records", "retention")
PEOPLE = ("clock", "changes", "queries", "net", "config", "client", "protocol", "retention")

ALLOWED: dict[str, tuple[str, ...]] = {
    "__init__": ("api",),
    "__main__": ("cli",),
    "errors": (),
    "model": (),
    "text": (),
    "timespec": (),
    "columns": (),
    "json_rows": (),
    "durable": (),
    "held": (),
    "class_archive": (),
    "metrics": (),
    "renamed": (),
    "clock": (),
    "config": (),
    "protocol": (),
    "records": ("protocol",),
    "retention": ("records",),
    "client": ("protocol",),
    "net": ("protocol", "client", "config"),
    "queries": READING,
    "changes": ("queries", *READING, "config"),
    "api": PEOPLE,
    "exporter": PEOPLE,
    "mcp": (*PEOPLE, "api"),
    "top": ("clock", "queries", "changes", "net", "config"),
    "analysis": ("records", "retention", "protocol", "config", "changes.cleanup.plan_file"),
    "sandbox": ("",),
    "cli": ("",),
}
"""What each room may import besides itself; "" is everything."""

EXTRA: dict[str, tuple[str, ...]] = {
    # Its reader of a living cluster.
    "analysis/input/readers/cluster.py": ("net", "client", "queries.log")
}

ONLY_IN = {
    "click": ("cli",),
    "pyspark": ("analysis",),
    "pyarrow": ("analysis",),
    "numpy": ("analysis",),
    "socket": ("net", "cli", "api", "sandbox", "exporter"),
    "ssl": ("net", "cli", "sandbox"),
    "selectors": ("net", "cli", "sandbox"),
    "time": ("net", "cli", "api", "sandbox", "exporter", "mcp", "top"),
    "random": ("net", "cli", "sandbox"),
    "http": ("net", "cli", "sandbox", "exporter"),
    "urllib": ("net", "cli", "sandbox"),
    "rich": ("cli", "sandbox", "top"),
    "textual": ("top",),
    "tabulate": ("cli",),
    "yaml": ("cli",),
    "re2": ("cli",),
    "asyncio": ("mcp",),
    "anyio": ("mcp",),
    "mcp": ("cli", "mcp"),
    "prometheus_client": ("cli",),
    "fsspec": ("changes",),
    "confluent_kafka": ("sandbox",),
}
"""Where libraries and clocks are allowed (analysis measures its own stages, see below)."""

ON_DEMAND = {
    "net/auth/assertions.py": ("cryptography",),
    "net/tls/stores.py": ("cryptography",),
    "net/auth/kerberos.py": ("gssapi",),
    "net/auth/aws.py": ("botocore", "aws_msk_iam_sasl_signer"),
    "records/batch.py": ("cramjam",),
    "changes/journal/remote_copy.py": ("fsspec",),
}
"""Libraries that the core needs for secured clusters and for compressed logs only, each in one
file."""

CLOCKS = {"analysis": {"time"}, "class_archive": {"time"}, "clock": {"time"}}
"""How long a Spark job took, how old an archive is: no result depends on it. ``clock`` is the time
itself, for the rooms that may have one."""


def _files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _part(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def _is_allowed(path: Path, module: str) -> bool:
    part = _part(path)
    if module in OPEN or module == f"kgtool.{part}" or module.startswith(f"kgtool.{part}."):
        return True
    extra = EXTRA.get(path.relative_to(ROOT).as_posix(), ())
    for name in (*ALLOWED[part], *extra):
        if name == "" and not f"{module}.".startswith("kgtool.cli."):
            return True
        prefix = f"kgtool.{name}"
        # ``from kgtool.protocol import codes`` also yields the package itself.
        if name and (
            module == prefix or module.startswith(f"{prefix}.") or prefix.startswith(f"{module}.")
        ):
            return True
    return False


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_of(path: Path) -> None:
    assert _part(path) in ALLOWED, f"{path}: say in ALLOWED what this new part may import"
    for module in imports_of(path):
        top = module.split(".")[0]
        if top == "kgtool":
            assert _is_allowed(path, module), f"{path.relative_to(ROOT)} imports {module}"
        elif top in ONLY_IN and top not in CLOCKS.get(_part(path), ()):
            allowed = ONLY_IN[top]
            assert _part(path) in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    core = (
        "protocol",
        "records",
        "retention",
        "client",
        "net",
        "queries",
        "changes",
        "model",
        "errors",
    )
    # typing_extensions is for the type checker alone: it is no dependency.
    known = sys.stdlib_module_names | {"kgtool", "typing_extensions"}
    for path in _files():
        if _part(path) in core:
            also = ON_DEMAND.get(path.relative_to(ROOT).as_posix(), ())
            for module in imports_of(path):
                top = module.split(".")[0]
                assert top in known or top in also, f"{path} imports {module}"


def test_the_walk_sees_imports_inside_functions() -> None:
    assert "difflib" in set(imports_of(ROOT / "cli" / "app" / "nearest.py"))
    assert "kgtool.config" in set(imports_of(ROOT / "cli" / "options" / "shared.py"))


SENDS_CHANGES = ("changes", "sandbox")
"""The rooms that may name an API which changes a cluster. ``kgtool request`` names none: it sends
whatever it is told to, after a question."""


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_one_room_can_change_a_cluster(path: Path) -> None:
    """By the schemas' own word: Metadata may make topics, if the request says so."""
    from kgtool.protocol import api

    modules = {f"kgtool.protocol.api.{_module(name)}": api.load(name) for name in api.names()}
    for module in set(imports_of(path)) & modules.keys():
        changes = modules[module].Request.CHANGES
        if changes is True:
            assert _part(path) in SENDS_CHANGES, f"{path.relative_to(ROOT)} imports {module}"


def _module(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_the_rooms_are_small() -> None:
    """A newcomer takes in about a dozen files; these two are lists."""
    lists = {"cli/commands", "protocol/api"}
    folders: dict[str, int] = {}
    for path in _files():
        folder = path.parent.relative_to(ROOT).as_posix()
        folders[folder] = folders.get(folder, 0) + (path.name != "__init__.py")
    assert {f: n for f, n in folders.items() if n > 16 and f not in lists} == {}


def test_the_screen_is_small() -> None:
    """``kgtool top`` shows and asks; what it shows and does belongs to other rooms."""
    lines = [len(path.read_text().splitlines()) for path in (ROOT / "top").glob("*.py")]
    assert len(lines) > 5
    assert sum(lines) < 1500


FLOORS: dict[str, tuple[set[str], ...]] = {
    "queries": (
        {"cluster"},
        {f"offsets/{name}" for name in ("fetch", "lag", "leader_epochs")}
        | {"offsets/list_offsets", "offsets/record_retention", "cluster/pending"},
        {"groups"},
        # Of all transactions, those that the log knows.
        {"log", "cluster/transactions"},
        {"offsets"},
        {"doctor"},
        {"explain", "peek"},
    ),
    "changes": (
        {"snapshot", "doubt", "hidden_offsets", "session"},
        {"offsets"},
        {"groups"},
        {"plan"},
        {"reset"},
        {"cleanup/criteria", "cleanup/facts", "cleanup/plan_file"},
        {"policy"},
        {"journal"},
        {"raw_request"},
        {"driver", "row_lines"},
        {"restore/decide", "cleanup/verify"},
        {"kinds"},
        {"restore"},
        {"cleanup"},
        {"retention"},
        # These two carry plans out, which are made of the other kinds.
        {"kinds/apply_plan", "kinds/keep_planned", "retention/apply"},
        {"refusals"},
    ),
    "cli": (
        # The words of a command line, before Click reads it.
        {f"app/{name}" for name in ("argv", "exits", "help", "kafka_refusals", "nearest")}
        | {"app/overview", "commands/__init__"},
        {"output"},
        {"options"},
        {"change"},
        {"cleanup", "describe", "reset"},
        {"analyze", "retention"},
        {"commands"},
        {"app"},
        {"__main__"},
    ),
    "analysis": (
        {"schema", "missing_data", "words"},
        {"decode"},
        {"input"},
        {"fold"},
        {"tables"},
        {"pipeline", "partition_tables", "arguments", "to_parquet", "table_files"},
        {"local_engine"},
        {"spark"},
        {"report", "state", "tables_out"},
        {"api"},
        {"__init__"},
    ),
}
"""The floors of each room, from the ground up: a file may import those below and beside it. A file
that stands on another floor than its folder is named with it."""


def _floor(room: str, path: Path) -> int:
    name = path.relative_to(ROOT / room).with_suffix("").as_posix()
    floors = FLOORS[room]
    for part in (name, name.partition("/")[0]):
        for level, names in enumerate(floors):
            if part in names:
                return level
    raise AssertionError(f"{room}/{name}: say in FLOORS on which floor it stands")


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_is_imported_downwards_only(room: str) -> None:
    paths = {module_of(path): path for path in sorted((ROOT / room).rglob("*.py"))}
    wrong = []
    for name, path in paths.items():
        # The room itself and its folders are the way to a module, and hold nothing.
        found = {m for m in imports_of(path) if m in paths} - _packages_of(name)
        found -= {other for each in found for other in _packages_of(each)}
        if name != f"kgtool.{room}" or room == "analysis":
            wrong += [f"{name} imports {m}" for m in found if _above(room, paths[m], path)]
    assert wrong == []


def _above(room: str, imported: Path, path: Path) -> bool:
    return _floor(room, imported) > _floor(room, path)


def test_no_files_import_each_other_in_a_circle() -> None:
    known = {module_of(path): path for path in _files()}
    edges = {
        name: {other for other in imports_of(path) if other in known and other != name}
        for name, path in known.items()
    }
    edges = {name: others - _packages_of(name) for name, others in edges.items()}
    reach = {name: _reached(edges, name) for name in known}
    circles = {frozenset(o for o in reach[n] if n in reach[o]) for n in known if n in reach[n]}
    found = [{name.removeprefix("kgtool.") for name in circle} for circle in circles]
    assert found == []


def _packages_of(module: str) -> set[str]:
    """The packages of a module, and of all others: ``from kgtool.x import y`` yields both."""
    parts = module.split(".")
    return {".".join(parts[:size]) for size in range(1, len(parts))}


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    queue = list(edges[start])
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += edges[name]
    return found
