"""Stores that keytool and openssl made: what is read of them, and what is said of bad ones."""

from __future__ import annotations

import base64
import builtins
import contextlib
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kgtool.config.logins import Secret
from kgtool.config.security import TlsStore
from kgtool.errors import ConfigError
from kgtool.net.tls import jks
from kgtool.net.tls.stores import load_identity, read_pem, read_trusted, trusted_certificates
from kgtool.net.tls.stream import openssl_name
from kgtool.sandbox.install.java import find_java
from tests.cli.run import call
from tests.support.certificates import PASSWORD, TRICKY, Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    made.make_java_stores()
    return made


def keytool(folder: Path, *args: str) -> None:
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["keytool", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


# -- JKS --------------------------------------------------------------------------------------


def test_a_trust_store_of_keytool(certificates: Certificates) -> None:
    found = jks.read_store((certificates / "trust.jks").read_bytes(), PASSWORD)
    assert found == ((), (der(certificates / "ca.pem"),))


@pytest.mark.parametrize(("name", "password"), [("client.jks", PASSWORD), ("apart.jks", TRICKY)])
def test_a_key_of_keytool(certificates: Certificates, name: str, password: str) -> None:
    found = jks.read_store((certificates / name).read_bytes(), PASSWORD)
    (entry,) = found.keys
    assert entry.chain == (der(certificates / "client.pem"), der(certificates / "ca.pem"))
    plain = jks.decrypt_key(entry, password)
    theirs = serialization.load_pem_private_key((certificates / "client.key").read_bytes(), None)
    ours = serialization.load_der_private_key(plain, None)
    assert ours.private_numbers() == theirs.private_numbers()  # type: ignore[union-attr]
    with pytest.raises(jks.WrongPassword):
        jks.decrypt_key(entry, password + "x")


@pytest.mark.parametrize("kind", ["EC", "RSA", "Ed25519"])
def test_keys_of_every_kind_and_many_entries(tmp_path: Path, kind: str) -> None:
    store = ("-keystore", "many.jks", "-storetype", "JKS", "-storepass", "sécret€1")
    keytool(
        tmp_path, "-genkeypair", "-alias", "schlüssel", "-keyalg", kind, "-dname", "CN=x", *store
    )
    keytool(tmp_path, "-exportcert", "-rfc", "-alias", "schlüssel", "-file", "x.pem", *store)
    for alias in ("eins", "zwei"):
        keytool(tmp_path, "-importcert", "-noprompt", "-alias", alias, "-file", "x.pem", *store)
    found = jks.read_store((tmp_path / "many.jks").read_bytes(), "sécret€1")
    certificate = der(tmp_path / "x.pem")
    assert found.trusted == (certificate, certificate)
    (entry,) = found.keys
    assert (entry.alias, entry.chain) == ("schlüssel", (certificate,))
    key = serialization.load_der_private_key(jks.decrypt_key(entry, "sécret€1"), None)
    public = x509.load_der_x509_certificate(certificate).public_key()
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*form) == public.public_bytes(*form)


def test_without_a_password_certificates_are_read_without_a_check_as_java_does(
    certificates: Certificates,
) -> None:
    data = (certificates / "trust.jks").read_bytes()
    assert jks.read_store(data, None) == jks.read_store(data, PASSWORD)


def test_every_cut_and_every_changed_byte_is_noticed(certificates: Certificates) -> None:
    data = (certificates / "client.jks").read_bytes()
    for size in range(0, len(data), 7):
        with pytest.raises(ValueError):
            jks.read_store(data[:size], PASSWORD)
        with contextlib.suppress(ValueError):  # no other error, and no hang
            jks.read_store(data[:size], None)
    for at in range(0, len(data), 5):
        changed = bytes([*data[:at], data[at] ^ 0x55, *data[at + 1 :]])
        with pytest.raises(ValueError):
            jks.read_store(changed, PASSWORD)
        with contextlib.suppress(ValueError):
            for entry in jks.read_store(changed, None).keys:
                jks.decrypt_key(entry, PASSWORD)


# -- what a user is told ----------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, object], str]] = {
    "no trust store": (
        {"ssl.truststore.location": "/nowhere/trust.jks", "ssl.truststore.password": "x"},
        "Can't read ssl.truststore.location /nowhere/trust.jks: No such file or directory.",
    ),
    "a folder": ({"ssl.truststore.location": "{folder}"}, "Is a directory"),
    "JKS, wrong password": (
        {"ssl.truststore.location": "{folder}/trust.jks", "ssl.truststore.password": "h1dden"},
        "Check ssl.truststore.password.",
    ),
    "PKCS12, wrong password": (
        {
            "ssl.truststore.location": "{folder}/trust.p12",
            "ssl.truststore.password": "h1dden",
            "ssl.truststore.type": "PKCS12",
        },
        "Check ssl.truststore.password.",
    ),
    "PKCS12, no password": (
        {"ssl.truststore.location": "{folder}/trust.p12", "ssl.truststore.type": "PKCS12"},
        "Check ssl.truststore.password.",
    ),
    "no store at all": (
        {"ssl.truststore.location": "{folder}/tricky", "ssl.truststore.password": "h1dden"},
        "not a PEM, PKCS12 or JKS store",
    ),
    "no certificate": (
        {"ssl.truststore.location": "{folder}/client.key", "ssl.truststore.type": "PEM"},
        "no certificate to trust",
    ),
    "key store, wrong password": (
        {"ssl.keystore.location": "{folder}/client.jks", "ssl.keystore.password": "h1dden"},
        "Check ssl.keystore.password.",
    ),
    "key with another password": (
        {"ssl.keystore.location": "{folder}/apart.jks", "ssl.keystore.password": PASSWORD},
        "set ssl.key.password",
    ),
    "key store without a key": (
        {"ssl.keystore.location": "{folder}/trust.jks", "ssl.keystore.password": PASSWORD},
        "has no private key",
    ),
    "PKCS12 without a key": (
        {"ssl.keystore.location": "{folder}/trust.p12", "ssl.keystore.password": PASSWORD},
        "has no private key",
    ),
    "PEM, wrong key password": (
        {
            "ssl.keystore.location": "{folder}/client.sealed.pem",
            "ssl.keystore.type": "PEM",
            "ssl.key.password": "h1dden",
        },
        "ssl.key.password is wrong",
    ),
    "PEM, no key password": (
        {"ssl.keystore.location": "{folder}/client.sealed.pem", "ssl.keystore.type": "PEM"},
        "ssl.key.password is missing",
    ),
    "PEM without a key": (
        {"ssl.keystore.location": "{folder}/client.pem", "ssl.keystore.type": "PEM"},
        "has no private key",
    ),
    "PEM, key of another certificate": (
        {"ssl.keystore.location": "{folder}/mixed.pem", "ssl.keystore.type": "PEM"},
        "the key does not belong to the certificate",
    ),
    "damaged certificate": (
        {"ssl.truststore.location": "{folder}/damaged.pem", "ssl.truststore.type": "PEM"},
        "can't be read",
    ),
    "JCEKS": (
        {"ssl.truststore.location": "{folder}/trust.jceks", "ssl.truststore.password": "x"},
        "JCEKS",
    ),
}


@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
def test_a_bad_store_is_one_sentence_and_nothing_is_sent(
    certificates: Certificates, tmp_path: Path, capsys: Any, given: dict[str, object], said: str
) -> None:
    folder = certificates.folder
    (folder / "mixed.pem").write_text(
        certificates.text("broker.key") + certificates.text("client.pem")
    )
    middle = certificates.text("ca.pem").splitlines()
    middle[5] = middle[5][::-1]
    (folder / "damaged.pem").write_text("\n".join([*middle[:3], "MIIB", *middle[9:]]))
    (folder / "trust.jceks").write_bytes(b"\xce\xce\xce\xce" + bytes(60))
    lines = ["security.protocol=SSL"]
    lines += [f"{key}={str(value).format(folder=folder)}" for key, value in given.items()]
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines))
    result = call(
        capsys, "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)
    )
    assert result.status == 2, result.err
    assert said in result.err
    assert "h1dden" not in result.err
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1


# -- where keys go ----------------------------------------------------------------------------


def key_store(certificates: Certificates, name: str) -> TlsStore:
    kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name.rpartition(".")[2]]
    password = None if kind == "PEM" else Secret(PASSWORD)
    key_password = Secret(TRICKY) if name in ("client.sealed.pem", "apart.jks") else None
    return TlsStore("keystore", kind, str(certificates / name), password, key_password=key_password)


KEYS = (
    "client.both.pem",
    "client.sealed.pem",
    "client.p12",
    "client.keytool.p12",
    "client.jks",
    "apart.jks",
)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("has_memfd", [True, False], ids=["memfd", "no memfd"])
def test_no_private_key_is_ever_written_to_a_disk(
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    has_memfd: bool,
) -> None:
    """Where there is no memory file, as on macOS, what is on the disk is encrypted, and goes."""
    written: list[tuple[str, bytes, int]] = []
    real_open = builtins.open

    def spy(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        opened = real_open(file, mode, *args, **options)
        if "w" in mode:
            real_write = opened.write

            def write(data: bytes) -> Any:
                where = str(Path(f"/proc/self/fd/{opened.fileno()}").readlink())
                written.append((where, data, os.fstat(opened.fileno()).st_mode & 0o777))
                return real_write(data)

            return _Spy(opened, write)
        return opened

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(builtins, "open", spy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_identity(context, key_store(certificates, name))
    ((where, data, mode),) = written
    if has_memfd:
        assert where.startswith("/memfd:")
    else:
        assert where.startswith(str(tmp_path))
        assert mode == 0o600
        assert b"ENCRYPTED" in data
        assert b"BEGIN PRIVATE KEY" not in data
        assert b"BEGIN RSA PRIVATE KEY" not in data
    assert list(tmp_path.iterdir()) == []


class _Spy:
    def __init__(self, opened: Any, write: Callable[[bytes], Any]) -> None:
        self._opened, self.write = opened, write

    def __enter__(self) -> _Spy:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


@pytest.mark.parametrize("name", ["trust.pem", "trust.p12", "trust.jks"])
def test_what_is_trusted_is_what_the_store_has(certificates: Certificates, name: str) -> None:
    kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name.rpartition(".")[2]]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    password = None if kind == "PEM" else Secret(PASSWORD)
    trusted_certificates(context, TlsStore("truststore", kind, str(certificates / name), password))
    assert context.get_ca_certs(binary_form=True) == [der(certificates / "ca.pem")]


TRUST_MANAGER = """
import java.io.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
public class Trusted {
  static X509Certificate[] trusted(TrustManagerFactory factory) {
    return ((X509TrustManager) factory.getTrustManagers()[0]).getAcceptedIssuers();
  }
  public static void main(String[] files) throws Exception {
    for (int i = 1; i < files.length; i++) {
      KeyStore store = KeyStore.getInstance("PKCS12");
      store.load(new FileInputStream(files[i]), files[0].toCharArray());
      TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
      factory.init(store);
      StringBuilder line = new StringBuilder();
      for (X509Certificate c : trusted(factory))
        line.append(java.util.Base64.getEncoder().encodeToString(c.getEncoded())).append(' ');
      System.out.println(line);
    }
  }
}
"""


def _java_trusts(folder: Path, *names: str) -> list[set[bytes]]:
    """What Java's own trust manager takes from PKCS #12 files."""
    source = folder / "Trusted.java"
    source.write_text(TRUST_MANAGER)
    command = [str(find_java()), "-Dfile.encoding=UTF-8", str(source), PASSWORD, *names]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    return [set(map(base64.b64decode, line.split())) for line in done.stdout.splitlines()]


def test_a_key_store_as_trust_store_trusts_what_java_trusts(certificates: Certificates) -> None:
    """Was: the whole chain of a key, so that any certificate of that authority was fine."""
    folder = certificates.folder
    shutil.copy(folder / "client.keytool.p12", folder / "both.p12")
    keytool(
        folder,
        "-importcert",
        "-noprompt",
        "-alias",
        "stranger",
        "-file",
        "stranger.pem",
        "-keystore",
        "both.p12",
        "-storepass",
        PASSWORD,
    )
    shutil.copy(folder / "both.p12", folder / "all.p12")
    keytool(
        folder,
        "-importcert",
        "-noprompt",
        "-alias",
        "ca",
        "-file",
        "ca.pem",
        "-keystore",
        "all.p12",
        "-storepass",
        PASSWORD,
    )
    expected = {
        "client.keytool.p12": {"client"},
        "client.p12": {"client"},
        "both.p12": {"client", "stranger"},
        "all.p12": {"client", "stranger", "ca"},
        "trust.p12": {"ca"},
    }
    for (name, who), theirs in zip(expected.items(), _java_trusts(folder, *expected), strict=True):
        store = TlsStore("truststore", "PKCS12", str(certificates / name), Secret(PASSWORD))
        ours = set(map(ssl.PEM_cert_to_DER_cert, read_trusted(store)))
        assert ours == {der(certificates / f"{one}.pem") for one in who}, name
        assert ours == theirs, name


def test_a_certificate_that_is_no_authority_can_be_trusted_itself(
    certificates: Certificates,
) -> None:
    """As in Java: the broker's own certificate in the trust store is enough."""
    from kgtool.config.security import Tls
    from kgtool.net.tls.stream import make_context

    leaf = TlsStore("truststore", "PEM", str(certificates / "broker.pem"), None)
    client = make_context(Tls(leaf, None, True, ("TLSv1.2", "TLSv1.3"), ()), "f")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ours.version() == "TLSv1.3"


def test_a_missing_password_never_asks_on_the_terminal(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    store = key_store(certificates, "client.sealed.pem")._replace(key_password=None)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is missing"):
        load_identity(context, store)


def test_pem_texts_in_one_line(certificates: Certificates) -> None:
    text = certificates.text("client.sealed.pem")
    assert read_pem(text) == read_pem(text.replace("\n", " ")) == read_pem(text.replace("\n", ""))
    found = read_pem(f"junk\n{text}\njunk")
    assert len(found.certificates) == 2
    assert found.is_encrypted


def test_javas_names_of_cipher_suites() -> None:
    for java, openssl in {
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
        "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    }.items():
        assert openssl_name(java) == openssl
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers(openssl)
        assert openssl in {cipher["name"] for cipher in context.get_ciphers()}
