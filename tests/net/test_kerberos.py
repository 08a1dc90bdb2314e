"""GSSAPI against a real MIT KDC and a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import ROOT, kgtool
from tests.net.conftest import Refused, Run
from tests.net.test_sasl import keytab_login, login
from tests.support import kerberos
from tests.support.secure import SecureKafka, krb5

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def realm(secure: SecureKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kerberos.is_installed(), kerberos.HOW
    __import__("gssapi")  # kerberos.HOW says how to install it
    for name, value in secure.kdc.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/nobody's")


def tickets(line: str | None = None, service: str = "kafka") -> dict[str, object]:
    found: dict[str, object] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service,
    }
    return found if line is None else {**found, "sasl_jaas_config": line}


def test_a_key_table(secure: SecureKafka, list_groups: Run) -> None:
    result = list_groups("KERBEROS", **tickets(keytab_login(secure)))
    assert result.status == 0, result.err


def test_kafkas_own_tool_takes_the_same_file(
    secure: SecureKafka, client_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={secure.kdc.folder}/krb5.conf"
    )
    done = secure.cluster.run_tool(
        "kafka-consumer-groups",
        "--bootstrap-server",
        secure.at("KERBEROS"),
        "--command-config",
        client_file(**tickets(keytab_login(secure))),
        "--list",
    )
    assert "Error" not in done.stdout, done.stdout + done.stderr


def test_the_tickets_of_kinit(
    secure: SecureKafka, list_groups: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.kdc.kinit(tmp_path / "cache")
    line = krb5(useTicketCache="true", ticketCache=f"FILE:{tmp_path}/cache")
    assert list_groups("KERBEROS", **tickets(line)).status == 0
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/cache")
    assert list_groups("KERBEROS", **tickets()).status == 0, "the default cache"


def test_no_ticket(list_groups: Run, refused: Refused) -> None:
    result = refused("GSSAPI: no ticket", lambda: list_groups("KERBEROS", **tickets()))
    assert "kafka/localhost" in result.err
    assert "kinit" in result.err


def test_a_service_that_the_kdc_does_not_know(
    secure: SecureKafka, list_groups: Run, refused: Refused
) -> None:
    given = tickets(keytab_login(secure), "zookeeper")
    result = refused("GSSAPI: unknown service", lambda: list_groups("KERBEROS", **given))
    assert "zookeeper/localhost" in result.err
    assert "sasl.kerberos.service.name" in result.err


def test_a_key_table_that_is_not_there(list_groups: Run) -> None:
    line = krb5(useKeyTab="true", keyTab="/nowhere.keytab", principal="alice@KGTOOL.TEST")
    result = list_groups("KERBEROS", **tickets(line))
    assert result.status == 2
    assert "/nowhere.keytab" in result.err


def test_a_service_name_is_needed(list_groups: Run) -> None:
    given = tickets()
    del given["sasl_kerberos_service_name"]
    result = list_groups("KERBEROS", **given)
    assert result.status == 2
    assert "sasl.kerberos.service.name" in result.err


def test_a_login_of_another_mechanism_names_gssapi(list_groups: Run) -> None:
    result = list_groups("KERBEROS", **login("PLAIN", 'x.Y required username="a" password="b";'))
    assert result.status == 4
    assert "enabled there: GSSAPI" in result.err


def test_without_python_gssapi_the_extra_is_named(
    secure: SecureKafka, client_file: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "gssapi.py").write_text("raise ImportError('not installed')\n")
    path = client_file(**tickets())
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    argv = ["list", "--bootstrap-server", secure.at("KERBEROS"), "--command-config", path]
    result = kgtool(*argv, env=env)
    assert result.status == 1
    assert "kafka-kgtool[gssapi]" in result.err
