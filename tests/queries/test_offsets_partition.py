"""Where groups live: as Java hashes, and as real brokers have stored them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgtool.queries.cluster.offsets_partition import java_hash, offsets_partition
from kgtool.sandbox.install.java import find_java
from tests.retention.truth import RULES, truth
from tests.support import seeds

ODD = [
    "",
    "a",
    "billing",
    "polygenelubricants",
    "group with blanks",
    "grüße",
    "日本語",
    "\0",
    "\uffff",
    "\U0001f600",
    "x\U0001f600y\U0010ffff",
    "e\u0301",
    "a" * 249,
    "\U0001f980" * 100,
]

HASHES = """
public class Hashes {
    public static void main(String[] args) throws Exception {
        for (String line : new String(System.in.readAllBytes(), "US-ASCII").split("\\n")) {
            StringBuilder text = new StringBuilder();
            for (String unit : line.isBlank() ? new String[0] : line.split(","))
                text.append((char) Integer.parseInt(unit));
            System.out.println(text.toString().hashCode());
        }
    }
}
"""


def units(text: str) -> str:
    raw = text.encode("utf-16-be")
    return ",".join(str(int.from_bytes(raw[at : at + 2], "big")) for at in range(0, len(raw), 2))


def random_names(count: int) -> list[str]:
    rng = seeds.rng("names")
    points = [*range(1, 0xD800), *range(0xE000, 0x110000)]
    return [
        "".join(chr(rng.choice(points)) for _ in range(rng.randint(1, 12))) for _ in range(count)
    ]


def test_java_itself_gives_the_same_hashes(tmp_path: Path) -> None:
    names = [*ODD, *random_names(3000)]
    source = tmp_path / "Hashes.java"
    source.write_text(HASHES)
    done = subprocess.run(
        [str(find_java()), str(source)],
        input="\n".join(map(units, names)) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [java_hash(name) for name in names] == [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("run", RULES)
def test_brokers_put_their_groups_there(run: str) -> None:
    groups = {}
    for line in truth(run).records:
        key = (line.get("decoded") or {}).get("key") or {}
        group = key.get("group") or key.get("groupId")
        if group is not None:
            groups[group] = line["partition"]
    assert len(groups) > 20
    assert {group: offsets_partition(group, 8) for group in groups} == groups


def test_the_one_hash_without_an_absolute_value_is_partition_0() -> None:
    assert offsets_partition("polygenelubricants", 50) == 0
