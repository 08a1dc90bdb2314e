"""The HTML report: one file that needs no network, built from ``facts.collect``.

Names of groups and topics are chosen by clients, so they are not trusted: in the page they are
escaped, all others are in data blocks that no browser executes, and the page's policy allows only
its own two scripts, by their hashes, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import kgtool
from kgtool.analysis.report.findings import findings
from kgtool.analysis.words import about, duration, rules_over_time, size, when
from kgtool.durable import replace
from kgtool.errors import AnalysisError, UsageError
from kgtool.text import counted

SCRIPTS = ("report.js", "charts.js", "tables.js", "start.js")
Rows = Callable[[str], Iterable[bytes]]
"""Gives the blocks of the table with that name (``facts.rows``)."""


def check_file(path: Path, *, overwrite: bool) -> None:
    """Raise UsageError if no report can be written to ``path``."""
    if path.is_dir():
        raise UsageError(f"--report {path} is a folder: name a file.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--report {path}: the folder {path.absolute().parent} does not exist.")
    if path.exists() and not path.is_file():  # /dev/stdout would be replaced by a file
        raise UsageError(f"--report {path} is not a regular file: name another one.")
    if path.exists() and not overwrite:
        raise UsageError(f"--report {path} exists: give --overwrite, or name another file.")
    if not os.access(path.resolve().parent, os.W_OK):
        raise UsageError(f"--report {path}: {path.absolute().parent} can't be written to.")


def write(path: Path, data: Mapping[str, Any], rows: Rows) -> None:
    """Write the report. Raises AnalysisError if that is not possible."""
    try:
        # The target of a link, not the link.
        replace(path.resolve() if path.is_symlink() else path, page(data, rows))
    except OSError as error:
        raise AnalysisError(f"{path} could not be written: {error.strerror}.") from error


def page(data: Mapping[str, Any], rows: Rows) -> Iterator[bytes]:
    """Yield the page in pieces."""
    # The licence must be part of every copy.
    uplot = f"/*!\n{_asset('uPlot.LICENSE')}\n*/\n{_asset('uPlot.js')}"
    script = "\n".join(map(_asset, SCRIPTS))
    parts = {
        "uplot": uplot,
        "script": script,
        "hashes": f"{_hash(uplot)} {_hash(script)}",
        "styles": f"{_asset('uPlot.css')}\n{_asset('report.css')}",
        "version": escape(kgtool.__version__),
        "title": f"Committed offsets, {when(data['as_of_ms'])}",
        "about": _about(data),
        **_verdict(findings(data["summary"], data["families"])),
        "tiles": "\n".join(_tiles(data["summary"])),
        "bucket": escape(duration(data["bucket_ms"])),
        "data": _json(data),
    }
    before, after = _asset("report.html").split("{{rows}}")
    yield _filled(before, parts)
    for table in data["tables"]:
        for block in rows(table["name"]):
            yield f'<script type="text/plain" data-rows="{table["name"]}">'.encode()
            yield block
            yield b"</script>\n"
    yield _filled(after, parts)


def _filled(template: str, parts: Mapping[str, str]) -> bytes:
    # One pass: inserted text is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template).encode()


def _asset(name: str) -> str:
    return (files("kgtool.analysis.report") / "html" / name).read_text(encoding="utf-8").strip()


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(data: Mapping[str, Any]) -> str:
    """JSON that can't close the element around it."""
    shown = {key: value for key, value in data.items() if key != "summary"}
    text = json.dumps(shown, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _about(data: Mapping[str, Any]) -> str:
    summary = data["summary"]
    quality = summary["quality"]
    cluster = f"Cluster {data['cluster_id']}, as" if data["cluster_id"] else "As"
    words = (
        f"{cluster} of {when(data['as_of_ms'])}. Rules {rules_over_time(summary)}, retention "
        f"{duration(summary['retention_ms'])}, checked every "
        f"{duration(summary['check_interval_ms'])}. Read: {quality['files']:,} files, "
        f"{size(quality['bytes'])}, {quality['records']:,} records"
    )
    skipped = f", {quality['skipped']:,} of them not decoded" if quality["skipped"] else ""
    unknown = (
        f" The input lacks {'; '.join(data['untold'])}: what depends on that is left out."
        if data["untold"]
        else ""
    )
    return escape(f"{words}{skipped}.{unknown}")


def _verdict(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the head and the list of the findings."""
    worst = [finding for finding in found if finding["level"] != "good"]
    order = ", the worst first" if len(worst) > 1 else ""
    head = f"{counted(len(worst), 'finding')}{order}" if worst else "Nothing is wrong"
    items = (
        f'<li class="{finding["level"]}">{escape(finding["text"])}'
        + (f"<code>{escape(finding['command'])}</code>" if finding["command"] else "")
        + "</li>"
        for finding in found
    )
    return {"verdict": head, "findings": f"<ol>{''.join(items)}</ol>"}


def _tiles(summary: Mapping[str, Any]) -> list[str]:
    expired = sum(
        row["removals"]
        for row in summary["removals"]
        if row["cause"] == "expired" and row["of_offset"]
    )
    latest = max(
        (row["max_latency_ms"] or 0 for row in summary["removals"] if row["cause"] == "expired"),
        default=None,
    )
    tiles = [
        ("Live offsets", f"{summary['live_offsets']:,}", ""),
        ("Groups with live offsets", f"{summary['live_groups']:,}", ""),
        ("Expire within 24 h", f"{summary['next_24h']:,}", ""),
        ("Expire within 7 days", f"{summary['next_7d']:,}", ""),
        ("Not expiring", f"{summary['never']:,}", ""),
        ("Expired so far", f"{expired:,}", ""),
        ("Longest expiry delay", about(latest), ""),
    ]
    if summary["overdue"] is not None:
        kind = "bad" if summary["overdue"] else "good"
        tiles.append(("Overdue", f"{summary['overdue']:,}", kind))
    if summary["untold"]:
        tiles.append(("Expiry unknown", f"{summary['untold']:,}", ""))
    return [
        f'<div class="tile {kind}"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
        for label, value, kind in tiles
    ]
