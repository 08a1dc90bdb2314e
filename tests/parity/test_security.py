"""81–83: what a principal with few rights, and one with the wrong password, gets to see."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)

from tests.cli import run
from tests.cli.run import Result
from tests.parity.behaviours import Offsets, behaviour, every_view, lines
from tests.parity.conftest import Parity
from tests.support import clients

pytestmark = pytest.mark.broker

PASSWORD = "alice's secret"
AsAlice = Callable[..., Result]


@pytest.fixture(scope="module")
def alice(parity: Parity) -> str:
    """A user whom SCRAM lets in."""
    kind = ScramMechanism.SCRAM_SHA_256
    clients.add_scram_user(parity.cluster.bootstrap, "alice", PASSWORD, kind)
    return "alice"


@pytest.fixture
def as_alice(
    alice: str, parity: Parity, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsAlice:
    def call(*argv: str, password: str = PASSWORD) -> Result:
        path = tmp_path / "client.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{alice}" password="{password}";\n'
        )
        line = ["--bootstrap-server", parity.sasl, "--command-config", str(path)]
        return run.call(capsys, *line, *argv)

    return call


def _may_describe(address: str, group: str) -> None:
    admin = clients.admin(address)
    rule = AclBinding(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rule]).values():
        future.result(30)


@behaviour(81)
@every_view
def test_describe_with_the_right_to_describe_the_group(
    address: str,
    as_alice: AsAlice,
    filled: Callable[..., str],
    empty: Callable[[Offsets], str],
    view: list[str],
    protocol: str,
) -> None:
    group = empty({(filled(3), 0): 1})
    refused = as_alice("--describe", "--group", group, *view)
    assert refused.status == 1
    assert "Group authorization failed" in refused.err
    _may_describe(address, group)

    def allowed() -> Result | None:
        result = as_alice("--describe", "--group", group, *view)
        return result if result.status == 0 else None

    result = clients.wait_for(allowed, "the ACL to be known", timeout=10)
    assert f"Consumer group '{group}' has no active members." in result.err
    if "--state" in view:
        assert lines(result.out)[1][0] == group


ACTIONS = [
    pytest.param(text.split(), id=text.split()[0].lstrip("-"))
    for text in (
        "--list",
        "--describe --group g",
        "--delete --group g",
        "--delete-offsets --group g --topic t",
        "--reset-offsets --group g --topic t --to-earliest --dry-run",
    )
]


@behaviour(82, protocols=("any",))
@pytest.mark.parametrize("action", ACTIONS)
def test_a_wrong_password_is_not_waited_for(
    as_alice: AsAlice, action: list[str], protocol: str
) -> None:
    began = time.monotonic()
    result = as_alice(*action, password="wrong")
    assert time.monotonic() - began < 15  # --timeout is twice as much
    assert (result.status, result.out) == (4, "")
    assert len(result.err.splitlines()) == 1
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in result.err


@behaviour(83)
def test_the_right_password_lists_the_group(
    address: str,
    as_alice: AsAlice,
    filled: Callable[..., str],
    empty: Callable[[Offsets], str],
    protocol: str,
) -> None:
    hidden, seen = (empty({(filled(1), 0): 0}) for _ in range(2))
    _may_describe(address, seen)

    def listed() -> bool:
        result = as_alice("--list")
        assert result.status == 0
        assert hidden not in result.out.split()
        return seen in result.out.split()

    clients.wait_for(listed, "the ACL to be known", timeout=10)


@behaviour()
def test_what_is_denied_is_named(
    address: str,
    as_alice: AsAlice,
    filled: Callable[..., str],
    empty: Callable[[Offsets], str],
    protocol: str,
) -> None:
    """Kafka's tool shows these with status 0, some of them without the reason."""
    topic = filled(3)
    group = empty({(topic, 0): 1})
    for action in (
        ["--describe"],
        ["--delete"],
        ["--delete-offsets", "--topic", f"{topic}:0"],
        ["--reset-offsets", "--topic", f"{topic}:0", "--to-earliest", "--execute"],
    ):
        result = as_alice(*action, "--group", group)
        assert result.status == 1, action
        assert "uthorization failed" in result.err
        assert "Traceback" not in result.err
    assert clients.committed(address, group) == {(topic, 0): 1}
    _may_describe(address, group)

    def visible() -> bool:
        return group in as_alice("--list").out.split()

    clients.wait_for(visible, "the ACL to be known", timeout=10)
    # To see a group is not to change it.
    for action in (["--delete"], ["--delete-offsets", "--topic", f"{topic}:0"]):
        result = as_alice(*action, "--group", group)
        assert result.status == 1
        assert "uthorization failed" in result.err
    assert clients.committed(address, group) == {(topic, 0): 1}


@pytest.mark.parametrize("is_secure", [True, False])
def test_the_wrong_kind_of_listener(
    alice: str, parity: Parity, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_secure: bool
) -> None:
    """SASL where there is none, and the other way round: Kafka's tool waits for --timeout."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{alice}" password="x";\n'
    )
    where = parity.sasl if is_secure else parity.cluster.bootstrap
    argv = ["--bootstrap-server", where, "--list", "--timeout", "20000"]
    began = time.monotonic()
    result = run.call(capsys, *argv, *([] if is_secure else ["--command-config", str(path)]))
    assert time.monotonic() - began < 10
    assert (result.status, result.out) == (4, "")
    assert len(result.err.splitlines()) == 1
