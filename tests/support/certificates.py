"""Certificates and stores for the tests, made with openssl and Java's keytool, once per folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

PASSWORD = "st0re pa$$, word"
"""Of every store and key; Java takes only ASCII for PKCS #12."""
TRICKY = "k3y=,;\"'\\ word"
"""Of keys that have a password of their own."""


class Certificates:
    """A certificate authority and what it signed, in ``folder``.

    ``ca.pem``, ``NAME.pem`` (certificate), ``NAME.key`` and ``NAME.p12`` for ``broker``, ``other``
    (another host's name), ``expired`` and ``client``; trust stores ``trust.{pem,p12,jks}`` and
    client stores ``client.{both.pem,sealed.pem,p12,keytool.p12,jks}``, ``apart.jks`` (its key has
    the password ``TRICKY``); ``stranger.pem`` is an authority that signed nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def make(self) -> None:
        """Make everything that is in no need of Java; see ``make_java_stores``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self / "password").write_text(PASSWORD, encoding="utf-8")
        (self / "tricky").write_text(TRICKY, encoding="utf-8")
        self._authority("ca", "kgtool tests")
        self._authority("stranger", "somebody else")
        here = "DNS:localhost,IP:127.0.0.1"
        self._leaf("broker", here)
        self._leaf("other", "DNS:kafka.example.org")
        self._leaf("expired", here, days=-1)
        self._leaf("client", "DNS:client.example.org")
        self._openssl(
            "pkcs8",
            "-topk8",
            "-in",
            "client.key",
            "-out",
            "client.sealed.key",
            "-passout",
            "file:tricky",
        )
        for name, key in (
            ("client.both.pem", "client.key"),
            ("client.sealed.pem", "client.sealed.key"),
        ):
            (self / name).write_text(self.text(key) + self.text("client.pem") + self.text("ca.pem"))
        (self / "trust.pem").write_text("A comment, 100 % harmless\n" + self.text("ca.pem"))

    def make_java_stores(self) -> None:
        trust = ("-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem")
        for kind, name in (("PKCS12", "trust.p12"), ("JKS", "trust.jks")):
            self._keytool(
                *trust, "-keystore", name, "-storetype", kind, "-storepass:file", "password"
            )
        source = (
            "-importkeystore",
            "-noprompt",
            "-srckeystore",
            "client.p12",
            "-srcstorepass:file",
            "password",
            "-deststorepass:file",
            "password",
        )
        self._keytool(*source, "-destkeystore", "client.keytool.p12", "-deststoretype", "PKCS12")
        self._keytool(*source, "-destkeystore", "client.jks", "-deststoretype", "JKS")
        self._keytool(
            *source,
            "-destkeystore",
            "apart.jks",
            "-deststoretype",
            "JKS",
            "-srcalias",
            "client",
            "-destkeypass:file",
            "tricky",
        )

    def _authority(self, name: str, subject: str) -> None:
        self._openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-noenc",
            "-days",
            "30",
            "-subj",
            f"/CN={subject}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        )

    def _leaf(self, name: str, names: str, days: int = 30) -> None:
        self._openssl(
            "req",
            "-new",
            "-newkey",
            "rsa:2048",
            "-noenc",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
        )
        (self / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        self._openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            str(days),
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.pem",
        )
        self._openssl(
            "pkcs12",
            "-export",
            "-in",
            f"{name}.pem",
            "-inkey",
            f"{name}.key",
            "-certfile",
            "ca.pem",
            "-name",
            name,
            "-passout",
            "file:password",
            "-out",
            f"{name}.p12",
        )

    def _openssl(self, *args: str) -> None:
        self._run("openssl", *args)

    def _keytool(self, *args: str) -> None:
        self._run("keytool", "-J-XX:TieredStopAtLevel=1", *args)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
