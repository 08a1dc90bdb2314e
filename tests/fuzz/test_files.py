"""Files that users give or keep, damaged: what is in them, or one sentence about them."""

from __future__ import annotations

import contextlib
import re
import ssl
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from kgtool.analysis.input.readers.ranges import TEXT_READERS, read_block
from kgtool.analysis.input.readers.text_ranges import units
from kgtool.changes.journal import history
from kgtool.changes.journal.journal import Journal, JournalHeader
from kgtool.changes.restore import backup
from kgtool.changes.restore.backup import BackupWriter
from kgtool.cli.reset import csv_file
from kgtool.config import contexts, jaas, properties, providers
from kgtool.config.logins import Secret
from kgtool.config.security import TlsStore
from kgtool.errors import ConfigError, KgError
from kgtool.net.tls import jks, stores
from kgtool.net.tls.stores import read_pem
from tests.changes import snapshots
from tests.fuzz.damage import EDITS, damaged, fuzz
from tests.support.certificates import PASSWORD, TRICKY, Certificates

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    made.make_java_stores()
    return made


STORES = (
    "trust.pem",
    "trust.p12",
    "trust.jks",
    "client.both.pem",
    "client.sealed.pem",
    "client.p12",
    "client.keytool.p12",
    "client.jks",
    "apart.jks",
)


@pytest.mark.parametrize("name", STORES)
@fuzz(25)
@given(edits=EDITS)
def test_stores(certificates: Certificates, tmp_path: Path, name: str, edits: Any) -> None:
    path = tmp_path / name
    path.write_bytes(damaged((certificates / name).read_bytes(), edits))
    kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name.rpartition(".")[2]]
    password = None if kind == "PEM" else Secret(PASSWORD)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ConfigError):
        if name.startswith("trust"):
            trusted = TlsStore("truststore", kind, str(path), password)
            stores.trusted_certificates(context, trusted)
        else:
            key = Secret(TRICKY) if name in ("client.sealed.pem", "apart.jks") else None
            store = TlsStore("keystore", kind, str(path), password, key_password=key)
            stores.load_identity(context, store)
    if kind == "JKS":
        with contextlib.suppress(ValueError):
            for entry in jks.read_store(path.read_bytes(), None).keys:
                jks.decrypt_key(entry, PASSWORD)


PROPERTIES = rb"""# login
security.protocol = SASL_SSL
sasl.jaas.config=a.b.PlainLoginModule required username="al\
   ice" password="${env:HOME}" x='${file:/etc/hostname:k}';
empty: \u0041\t
"""


@fuzz(300)
@given(EDITS)
def test_properties_jaas_lines_and_variables(edits: Any) -> None:
    text = damaged(PROPERTIES, edits).decode("latin-1")
    with contextlib.suppress(ValueError):
        found = properties.parse(text)
        with contextlib.suppress(ConfigError):
            found = providers.resolve(found, {"HOME": "/"}, "f")
        with contextlib.suppress(ConfigError):
            jaas.parse_jaas(found.get("sasl.jaas.config", text), "f")
    read_pem(text)


CONTEXTS = b"""current = "prod-eu"
[contexts.prod-eu]
bootstrap = "b1:9093"
user = "alice"
protected = true
[contexts.prod-eu.properties]
"sasl.mechanism" = "PLAIN"
[contexts.prod-eu.secrets]
password = "env:PW"
"""


@fuzz(200)
@given(edits=EDITS)
def test_contexts(tmp_path: Path, edits: Any) -> None:
    place = tmp_path / "kgtool" / "contexts.toml"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(damaged(CONTEXTS, edits))
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(ConfigError):
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        contexts.load()


RESET = b'group,"topic",0,10\ng2,t,1,20\n"a,b",t,2,30\n'


@fuzz(150)
@given(EDITS)
def test_reset_files(edits: Any) -> None:
    text = damaged(RESET, edits).decode("utf-8", "surrogateescape")
    with contextlib.suppress(KgError):
        csv_file.parse(text, "f.csv", None)
    with contextlib.suppress(KgError):
        csv_file.parse(text, "f.csv", "group")


HEADER = JournalHeader(
    "20260131-120000-1f2e3d4c",
    1_700_000_000_000,
    "2026-01-31 12:00:00",
    "delete-offsets",
    ("--group", "g"),
    "cluster",
    "b:9092",
    "me",
    "here",
    1,
    "0.1.0",
)
CHANGE = snapshots.change({snapshots.T0: snapshots.image(5), snapshots.T1: snapshots.image(None)})


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    written = Journal(tmp_path_factory.mktemp("journal"), HEADER)
    written.before([CHANGE])
    written.result("g", "t", 0, "deleted")
    written.close("done", 1_700_000_000_001)
    return written.path.read_bytes()


@fuzz(150)
@given(edits=EDITS)
def test_journals(tmp_path: Path, journal: bytes, edits: Any) -> None:
    path = tmp_path / f"{HEADER.id}.jsonl"
    path.write_bytes(damaged(journal, edits))
    for read in (
        history.read_entry,
        lambda path: list(history.changed_groups(path)),
        history.failed_items,
        history.changed_configs,
    ):
        with contextlib.suppress(KgError):
            read(path)


@pytest.fixture(scope="module")
def backup_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("backup") / "backup.jsonl"
    with BackupWriter(path, {"cluster_id": "c", "at_ms": 1}) as writer:
        writer.group(CHANGE.image)
        writer.group(snapshots.group({snapshots.T0: snapshots.image(7)}, "other"))
        writer.finish()
    return path.read_bytes()


@fuzz(150)
@given(edits=EDITS)
def test_backups(tmp_path: Path, backup_file: bytes, edits: Any) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(damaged(backup_file, edits))
    with contextlib.suppress(KgError):
        list(backup.open_backup(path).groups())


KINDS = {
    "offsets.json": "offsets-json",
    "groups.json": "groups-json",
    "offsets.txt": "offsets-text",
    "groups.txt": "groups-text",
}


def kind_of(path: Path) -> str:
    if "dump" not in path.name:
        return next(kind for end, kind in KINDS.items() if path.name.endswith(end))
    head = path.read_bytes()[:4096]
    if b'{"key":' in head or b'"type"' in head:
        return "dump-json"
    return "dump-text" if b"| offset:" in head else "dump-old"


PRINTED = sorted(p for p in (DATA / "printed").iterdir() if p.name != "README.txt")


@pytest.mark.parametrize("path", PRINTED, ids=lambda path: path.name)
@fuzz(12)
@given(edits=EDITS)
def test_what_kafkas_tools_printed(tmp_path: Path, path: Path, edits: Any) -> None:
    """Nothing is lost silently and nothing is raised: what can't be read is a note."""
    kind = kind_of(path)
    file = tmp_path / path.name
    file.write_bytes(damaged(path.read_bytes()[:20_000], edits))
    size = file.stat().st_size
    for block in units(BytesIO(file.read_bytes()), 0, size, TEXT_READERS[kind][0]):
        read_block(block, kind, 0, size)


@pytest.mark.parametrize("path", PRINTED, ids=lambda path: path.name)
def test_numbers_that_fit_nowhere(tmp_path: Path, path: Path) -> None:
    """A record with such a number is left out and counted; its neighbours are read."""
    kind, raw = kind_of(path), path.read_bytes()[:6000]
    file = tmp_path / path.name
    for number in [*re.finditer(rb"\d+", raw)][:60]:
        for huge in (b"9" * 30, b"1e400", b"-" + b"9" * 19):
            file.write_bytes(raw[: number.start()] + huge + raw[number.end() :])
            size = file.stat().st_size
            for block in units(BytesIO(file.read_bytes()), 0, size, TEXT_READERS[kind][0]):
                read_block(block, kind, 0, size)
