"""Three brokers that are not Apache Kafka: franz-go's kfake, built from ``tests/kfake``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

from kgtool.sandbox.paths import cache_root, locked
from tests.support import clients

SOURCE = Path(__file__).parent.parent / "kfake"
HOW = (
    "These tests start franz-go's kfake, which takes Go 1.26 or newer (Debian's is older): "
    "unpack the archive from https://go.dev/dl/ into /usr/local and put /usr/local/go/bin on PATH."
)


class Kfake(NamedTuple):
    """A running cluster; the brokers' ids are 0, 1 and 2."""

    bootstrap: str
    orders: IO[str]
    answers: IO[str]

    def fail(self, api: int, node: int = -1, **how: Any) -> None:
        """Damage the answers to an API: ``code=14``, ``empty=True`` or ``close=True``."""
        self._order({"api": api, "node": node, **how})

    def struck(self) -> int:
        """End all damage; return how many requests it struck."""
        return self._order({"api": -2}) + self._order({"clear": True})

    def seed(self, prefix: str, count: int) -> list[str]:
        """Make groups, which spread over the brokers."""
        names = [f"{prefix}-{number:03}" for number in range(count)]
        offsets = {("payments", 0): 3, ("payments", 1): 4}
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda name: clients.commit(self.bootstrap, name, offsets), names))
        return names

    def _order(self, order: dict[str, Any]) -> int:
        self.orders.write(json.dumps(order) + "\n")
        self.orders.flush()
        return int(self.answers.readline())


def program() -> Path:
    """Build the program once for its sources; return where it is."""
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    told = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = cache_root().parent / "tests" / f"kfake-{told}"
    with locked(made.with_suffix(".lock"), timeout=600.0):
        if not made.exists():
            go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
            assert go is not None, HOW
            built = made.with_suffix(".new")
            done = subprocess.run(
                [go, "build", "-o", built, "."], cwd=SOURCE, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{done.stderr}\n{HOW}"
            built.rename(made)
    return made


@contextlib.contextmanager
def running(*without: int) -> Iterator[Kfake]:
    """Start a cluster and end it; ``without``: the keys of APIs that it does not offer."""
    with subprocess.Popen(
        [program(), *map(str, without)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            places = json.loads(process.stdout.readline())
            yield Kfake(",".join(places), process.stdin, process.stdout)
        finally:
            process.stdin.close()
            process.wait(10)
