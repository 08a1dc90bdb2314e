"""The client.properties of docs/secured-clusters.rst, as it stands there, at a real broker."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.cli.run import ROOT, call
from tests.support.secure import ALICE, SecureKafka

pytestmark = pytest.mark.broker
TRUST = "/etc/kafka/ca.pem"


def test_the_file_of_the_readme(
    secure: SecureKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readme = (ROOT / "docs" / "secured-clusters.rst").read_text(encoding="utf-8")
    begin = readme.index("    security.protocol=")
    text = textwrap.dedent(readme[begin : readme.index("\n\n", begin)])
    assert TRUST in text
    path = tmp_path / "client.properties"
    path.write_text(text.replace(TRUST, str(secure.certificates / "ca.pem")))
    monkeypatch.setenv("KAFKA_PASSWORD", ALICE[1])
    argv = ["list", "--bootstrap-server", secure.at("SASLTLS"), "--command-config", str(path)]
    assert call(capsys, *argv).status == 0
    monkeypatch.delenv("KAFKA_PASSWORD")
    unset = call(capsys, *argv)
    assert unset.status == 2
    assert "KAFKA_PASSWORD is not set" in unset.err
