"""Logins and TLS on brokers of earlier generations: the same answers, whatever their age."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.sandbox.broker import free_ports, write_properties
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result, call
from tests.support.certificates import PASSWORD, Certificates
from tests.support.outcomes import Outcome
from tests.support.secure import ALICE, jaas, plain

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _config(certificates: Certificates, login_port: int, tls_port: int) -> dict[str, str]:
    login, tls = "listener.name.login.", "listener.name.tls."
    return {
        "listeners": f"LOGIN://127.0.0.1:{login_port},TLS://127.0.0.1:{tls_port}",
        "advertised.listeners": f"LOGIN://localhost:{login_port},TLS://localhost:{tls_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL",
        f"{login}sasl.enabled.mechanisms": "PLAIN",
        f"{login}plain.sasl.jaas.config": jaas(_MODULE, user_alice=ALICE[1]),
        f"{tls}ssl.keystore.type": "PKCS12",
        f"{tls}ssl.keystore.location": str(certificates / "broker.p12"),
        f"{tls}ssl.keystore.password": PASSWORD,
    }


@pytest.mark.parametrize("version", ["2.1.1", "3.9.1"])
def test_logins_and_tls(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: Outcome
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    login_port, tls_port = free_ports(2)
    config = _config(certificates, login_port, tls_port)
    with Sandbox.start("old", version=version, config=config, root=tmp_path / "state") as cluster:
        places = {
            "login": f"localhost:{login_port}",
            "TLS": f"localhost:{tls_port}",
            "plain": cluster.bootstrap,
        }
        _try_all(
            _lister(places, tmp_path / "client.properties", capsys), certificates, version, outcome
        )


def _lister(
    places: dict[str, str], path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, dict[str, str]], Result]:
    def run(place: str, properties: dict[str, str]) -> Result:
        write_properties(path, properties)
        argv = ("list", "--bootstrap-server", places[place], "--command-config", str(path))
        return call(capsys, *argv)

    return run


def _try_all(
    list_groups: Callable[[str, dict[str, str]], Result],
    certificates: Certificates,
    version: str,
    outcome: Outcome,
) -> None:
    tls = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "trust.pem"),
    }
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    alice, nobody = {"sasl.jaas.config": plain(ALICE)}, {"sasl.jaas.config": plain(("a", "b"))}
    nothing = {"security.protocol": "PLAINTEXT"}
    scram = {**sasl, **alice, "sasl.mechanism": "SCRAM-SHA-256"}
    tries: list[tuple[str, str, dict[str, str], str | None]] = [
        ("a login", "login", {**sasl, **alice}, None),
        ("TLS", "TLS", tls, None),
        ("a wrong login", "login", {**sasl, **nobody}, "refused the login (PLAIN)"),
        ("another mechanism", "login", scram, "enabled there: PLAIN"),
        ("no login", "login", nothing, "requires a login"),
        ("a needless login", "plain", {**sasl, **alice}, "listener without a login"),
        ("no TLS", "TLS", nothing, "speaks TLS"),
        ("needless TLS", "plain", tls, "listener without TLS"),
    ]
    for name, place, properties, said in tries:
        with outcome("Security by generation", version, name) as cell:
            result = list_groups(place, properties)
            assert result.status == (4 if said else 0), (name, result.err)
            assert (said or "") in result.err, name
            cell.says("ok" if said is None else "4, named")
