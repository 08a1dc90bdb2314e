"""``diff`` of two clusters: each side with its own client configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgtool.sandbox.broker import write_properties
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import call
from tests.support.clients import commit, create_topic, unique
from tests.support.secure import ALICE, SecureKafka, plain

pytestmark = pytest.mark.broker

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": plain(ALICE),
}


def test_two_configurations(
    kafka: Sandbox, secure: SecureKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wrong one of the two could not connect."""
    group, topic = unique("both"), unique("t")
    sides = []
    for at, there, offset, properties in (
        (kafka.bootstrap, kafka.bootstrap, 1, {"security.protocol": "PLAINTEXT"}),
        (secure.at("SASL"), secure.cluster.bootstrap, 3, LOGIN),
    ):
        commit(there, group, {(create_topic(there, topic), 0): offset})
        write_properties(file := tmp_path / f"{offset}.properties", properties)
        sides.append((at, str(file), offset))
    for (at, file, old), (at_b, file_b, new) in (sides, sides[::-1]):
        done = call(
            capsys,
            "diff",
            "--bootstrap-server",
            at,
            "--command-config",
            file,
            "--cluster-b",
            at_b,
            "--command-config-b",
            file_b,
            "--group",
            group,
            "-o",
            "json",
        )
        assert done.status == 5, done.err
        (row,) = done.json["results"]
        assert (row["old_offset"], row["new_offset"]) == (old, new), row
