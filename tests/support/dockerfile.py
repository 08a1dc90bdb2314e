"""Builds a Dockerfile's stages without a Docker daemon: each step in a chroot of its own.

The base images can't be had, so this machine lends what they hold: /usr read-only, a copy of
/etc, the tests' own Python as /usr/local, and a JVM. What a step writes lands in the stage's
folder, as in a layer. Needs the mount namespaces that ``unshare`` makes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MOUNTED = ("usr", "proc", "dev")
ETC = ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf", "ld.so.cache", "ssl")
"""What is copied: a step may write to it."""
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


class Stage(NamedTuple):
    """One target: its root folder and what it says of the process."""

    root: Path
    env: dict[str, str]
    user: list[str]
    entrypoint: list[str]

    def run(
        self, *argv: str, as_user: bool = True, check: bool = True, lent: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program within the stage; ``lent`` is a folder of this machine as /opt/lent."""
        user = [f"--userspec={self.user[-1]}"] if as_user and self.user else []
        mounts = [f"mount --rbind /{name} {self.root}/{name}" for name in MOUNTED]
        if lent:
            (self.root / "opt/lent").mkdir(exist_ok=True)
            mounts.append(f"mount --bind {lent} {self.root}/opt/lent")
        # An image holds nothing of this machine that a step could change.
        mounts.append(f"mount -o remount,bind,ro {self.root}/usr")
        if not sys.base_prefix.startswith("/usr"):
            # Once more under its own name: the program looks for its library there.
            places = (f"{self.root}/usr/local", f"{self.root}{sys.base_prefix}")
            mounts[1:1] = [f"mount --bind {sys.base_prefix} {place}" for place in places]
        script = "; ".join(["set -e", "mount --make-rprivate /", *mounts])
        inside = shlex.join(["/usr/sbin/chroot", *user, str(self.root), *argv])
        command = ["unshare", "--mount", "sh", "-c", f"{script}; exec {inside}"]
        if os.getuid():
            command.insert(1, "--map-root-user")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "KGTOOL_"))}
        kept.pop("PIP_FIND_LINKS", None)
        done = subprocess.run(
            command,
            env={**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", **self.env, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{argv}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
        return done

    def start(self, *argv: str, lent: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run the image's entry point, as ``docker run IMAGE argv…`` does."""
        return self.run(*self.entrypoint, *argv, check=False, lent=lent, **env)


def build(
    dockerfile: Path, context: Path, work: Path, target: str, lent: Path, **env: str
) -> Stage:
    """Build a target and what it needs; ``lent`` holds what an image without Python holds."""
    stages: dict[str, Stage] = {}
    texts = re.split(r"^FROM ", dockerfile.read_text(encoding="utf-8"), flags=re.M)[1:]
    named = {text.split()[2]: text for text in texts}

    def make(name: str) -> Stage:
        if name not in stages:
            head, *steps = [line for line in named[name].splitlines() if line.strip()]
            stages[name] = _base(head.split()[0], work / name, make, lent)
            for step in steps:
                word, _, rest = step.partition(" ")
                _step(stages[name], word, rest, context, make, env)
        return stages[name]

    return make(target)


def _base(image: str, root: Path, make, lent: Path) -> Stage:
    if not image.startswith("$"):
        before = make(image)
        shutil.copytree(before.root, root, symlinks=True)
        return Stage(root, dict(before.env), list(before.user), list(before.entrypoint))
    if image == "$JRE":
        return Stage(lent, {}, [], [])
    for name in (*MOUNTED, "etc", "tmp", "opt", sys.base_prefix.lstrip("/")):
        if not name.startswith("usr/"):
            (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ETC:
        path = Path("/etc", name)
        if path.exists():
            _copy(path, root / "etc" / name)
    for name, to in LINKS.items():
        (root / name).symlink_to(to)
    return Stage(root, {}, [], [])


def _step(stage: Stage, word: str, rest: str, context: Path, make, env: dict[str, str]) -> None:
    if word == "RUN":
        stage.run("/bin/sh", "-c", rest, as_user=False, **env)
    elif word == "ENV":
        name, _, value = rest.partition("=")
        stage.env[name] = value
    elif word == "USER":
        stage.user.append(rest)
    elif word == "ENTRYPOINT":
        stage.entrypoint.extend(re.findall(r'"([^"]*)"', rest))
    elif word == "COPY":
        *options, source, to = rest.split()
        origin = make(options[0].removeprefix("--from=")).root if options else context
        found = list(origin.glob(source.lstrip("/")))
        assert found, f"COPY {rest}: there is nothing"
        for path in found:
            into = stage.root / to.lstrip("/") / (path.name if to.endswith("/") else "")
            into.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, into)
    else:
        raise AssertionError(f"{word}: this builder knows no such step")


def _copy(path: Path, into: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy(path, into)
