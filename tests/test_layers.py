"""Who may import whom: a walk over every import, those inside functions too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "kgtool"

OPEN = {"kgtool", "kgtool.errors", "kgtool.model", "kgtool.jsonrows", "kgtool.words"}
"""Everybody may import these; they import nothing of kgtool but each other."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "__init__": ("groupadmin",),
    "__main__": ("cli",),
    "errors": (),
    "model": (),
    "jsonrows": (),
    "words": (),
    "config": (),
    "protocol": (),
    "records": ("protocol",),
    "retention": ("records",),
    "client": ("protocol",),
    "net": ("protocol", "client"),
    "admin": ("client", "protocol.api", "protocol.codes", "records", "retention"),
    "safety": ("admin", "retention", "protocol.codes", "config"),
    "analysis": ("records", "retention", "safety.plan", "protocol"),
    "groupadmin": ("admin", "client", "config", "net", "protocol.codes", "safety"),
    "sandbox": ("",),
    "cli": ("",),
}
"""What each part may import besides itself; "" is everything. ``config`` makes Settings, which
net only names in annotations."""

EXTRA: dict[str, tuple[str, ...]] = {
    # design.md: net and client only in its cluster source.
    "analysis/sources/cluster.py": ("net", "client", "admin"),
    "analysis/cluster.py": ("net", "client", "admin"),
    # Settings, and the kinds of security in them.
    "net/session.py": ("config",),
    "net/transport.py": ("config",),
    "net/tls.py": ("config",),
    "net/stores.py": ("config",),
    "net/logins.py": ("config",),
    "net/tokens.py": ("config",),
    "net/kerberos.py": ("config",),
    "net/aws.py": ("config",),
    # Which release a broker's versions mean.
    "admin/export.py": ("protocol.release",),
    "admin/broker_rules.py": ("protocol.release",),
    # How a uuid is written.
    "admin/images.py": ("protocol.wire",),
    # Any message from JSON.
    "admin/raw_message.py": ("protocol.as_json", "protocol.plan"),
    "groupadmin/asking.py": ("protocol.as_json",),
}

ONLY_IN = {
    "click": ("cli",),
    "pyspark": ("analysis",),
    "pandas": ("analysis",),
    "pyarrow": ("analysis",),
    "numpy": ("analysis",),
    "socket": ("net", "cli", "groupadmin", "sandbox"),
    "ssl": ("net", "cli", "sandbox"),
    "selectors": ("net", "cli", "sandbox"),
    "time": ("net", "cli", "groupadmin", "sandbox"),
    "random": ("net", "cli", "sandbox"),
    "http": ("net", "cli", "sandbox"),
    "urllib": ("net", "cli", "sandbox"),
    "rich": ("cli", "sandbox"),
    "tabulate": ("cli",),
    "yaml": ("cli",),
    "re2": ("cli",),
    "asyncio": (),
    "confluent_kafka": ("cli", "sandbox"),
}
"""Where libraries and clocks are allowed (analysis measures its own stages, see below)."""

ON_DEMAND = {
    "net/stores.py": ("cryptography",),
    "net/kerberos.py": ("gssapi",),
    "net/aws.py": ("botocore", "aws_msk_iam_sasl_signer"),
    "records/batch.py": ("cramjam",),
}
"""Libraries that the core needs for secured clusters and for compressed logs only, each in one
file."""

CLOCKS = {"analysis": {"time"}}
"""A Spark job reports how long it took; no result depends on it."""


def _files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _imports(path: Path) -> Iterator[str]:
    package = ["kgtool", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            # ``from kgtool import config`` imports a module of kgtool.
            for alias in node.names:
                if (ROOT.parent / module.replace(".", "/") / f"{alias.name}.py").exists() or (
                    ROOT.parent / module.replace(".", "/") / alias.name / "__init__.py"
                ).exists():
                    yield f"{module}.{alias.name}"


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
def test_imports(path: Path) -> None:
    assert _part(path) in ALLOWED, f"{path}: say in ALLOWED what this new part may import"
    for module in _imports(path):
        top = module.split(".")[0]
        if top == "kgtool":
            assert _is_allowed(path, module), f"{path.relative_to(ROOT)} imports {module}"
        elif top in ONLY_IN and top not in CLOCKS.get(_part(path), ()):
            allowed = ONLY_IN[top]
            assert _part(path) in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    core = ("protocol", "records", "retention", "client", "net", "admin", "model", "errors")
    # typing_extensions is for the type checker alone: it is no dependency.
    known = sys.stdlib_module_names | {"kgtool", "typing_extensions"}
    for path in _files():
        if _part(path) in core:
            also = ON_DEMAND.get(path.relative_to(ROOT).as_posix(), ())
            for module in _imports(path):
                top = module.split(".")[0]
                assert top in known or top in also, f"{path} imports {module}"


def test_the_walk_sees_imports_inside_functions() -> None:
    assert "difflib" in set(_imports(ROOT / "cli" / "slips.py"))
    assert "kgtool.config" in set(_imports(ROOT / "cli" / "options.py"))
