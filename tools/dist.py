"""``make dist``: what is handed to users, in one folder.

The wheel and the sdist, ``kgtool.pex`` (one file, needs only Python), ``requirements.txt`` (every
dependency with its hashes), ``sbom.cdx.json`` (what the pex holds, CycloneDX 1.5) and
``SHA256SUMS``. Times in the archives are those of the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import uuid
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
NAME = "kafka-kgtool"
OLDEST_PYTHON = "3.10"


def run(*argv: str | Path) -> str:
    """Run a program of this environment; return its output, or end with what it complains of."""
    program, *rest = argv
    stamp = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    done = subprocess.run(
        [str(BIN / program), *map(str, rest)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"SOURCE_DATE_EPOCH": stamp or "315532800", **os.environ},
    )
    if done.returncode:
        sys.exit(f"{program} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def requirements() -> str:
    """Return the newest dependencies that fit, for every Python and system, with hashes."""
    return run(
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--python-version",
        OLDEST_PYTHON,
        "pyproject.toml",
    )


def pex(wheel: Path, out: Path) -> Path:
    """Make one file of kgtool and its dependencies.

    At its first start it unpacks itself below ``PEX_ROOT``; after that a line of shell starts
    the Python there, so that it is as fast as an installed kgtool.
    """
    path = out / "kgtool.pex"
    run(
        "pex",
        wheel,
        "--script",
        "kgtool",
        "--venv",
        "--sh-boot",
        "--output-file",
        path,
        "--interpreter-constraint",
        f">={OLDEST_PYTHON}",
    )
    return path


def bill(path: Path) -> dict[str, Any]:
    """Return the software bill of materials of a pex (CycloneDX 1.5)."""
    with zipfile.ZipFile(path) as archive:
        found = [
            HeaderParser().parsestr(archive.read(name).decode("utf-8"))
            for name in archive.namelist()
            if name.startswith(".deps/") and name.endswith(".dist-info/METADATA")
        ]
    parts = sorted((_component(one) for one in found), key=lambda part: str(part["name"]))
    (main,) = (part for part in parts if part["name"] == NAME)
    rest = [part for part in parts if part is not main]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(parts))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**main, "type": "application"}},
        "components": rest,
        "dependencies": [{"ref": main["bom-ref"], "dependsOn": [p["bom-ref"] for p in rest]}],
    }


def _component(metadata: Any) -> dict[str, Any]:
    name, version = metadata["Name"].lower().replace("_", "-"), metadata["Version"]
    package = f"pkg:pypi/{name}@{version}"
    licence = metadata["License-Expression"] or (metadata["License"] or "").partition("\n")[0]
    licences = {"licenses": [{"license": {"name": licence}}]} if licence else {}
    return {
        "type": "library",
        "bom-ref": package,
        "name": name,
        "version": version,
        "purl": package,
        **licences,
    }


def build(out: Path, source: Path) -> Path:
    """Make the sdist, and of that the wheel; return the wheel."""
    run("uv", "build", "--quiet", "--out-dir", out, source)
    (out / ".gitignore").unlink(missing_ok=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def make(out: Path, source: Path = ROOT) -> list[Path]:
    """Make everything of a checkout in a folder; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    wheel = build(out, source)
    (out / "requirements.txt").write_text(requirements(), encoding="utf-8")
    made = bill(pex(wheel, out))
    (out / "sbom.cdx.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    files = sorted(out.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return [*files, out / "SHA256SUMS"]


if __name__ == "__main__":
    for path in make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(f"{path.stat().st_size:>12,}  {path}")
