"""A real MIT KDC for the tests, from Debian's krb5-kdc, as an ordinary user's process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from kgtool.sandbox import processes

REALM = "KGTOOL.TEST"
PASSWORD = "kerberos pass"
HOW = (
    "The Kerberos tests need a KDC and python-gssapi: apt-get install krb5-kdc krb5-admin-server "
    "krb5-user libkrb5-dev gcc python3-dev, then pip install 'kafka-kgtool[gssapi]'."
)
_SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


def is_installed() -> bool:
    return all(_find(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"))


class Kdc:
    """A realm in ``folder``: principals ``kafka/localhost`` and ``alice``, with key tables."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @property
    def environ(self) -> dict[str, str]:
        """What makes MIT's library use this realm."""
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }

    def create(self) -> None:
        """Make the realm's database; nothing is running yet."""
        self.folder.mkdir(parents=True)
        address = f"127.0.0.1:{self.port}"
        (self.folder / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n rdns = false\n dns_canonicalize_hostname = false\n"
            f"[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n"
        )
        (self.folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.folder}/principal\n"
            f"  key_stash_file = {self.folder}/stash\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        for query in (
            "addprinc -randkey kafka/localhost",
            f"ktadd -k {self.folder}/kafka.keytab kafka/localhost",
            f'addprinc -pw "{PASSWORD}" alice',
            f"ktadd -norandkey -k {self.folder}/alice.keytab alice",
        ):
            self._run("kadmin.local", "-r", REALM, "-q", query)

    def start(self, owner: Path) -> None:
        """Start it as a process that belongs to the folder ``owner`` (see sandbox.processes)."""
        program = _find("krb5kdc")
        assert program, HOW
        owner.mkdir(parents=True, exist_ok=True)
        command = [program, "-n", "-r", REALM, "-P", str(owner / "kdc.pid")]
        environ = {**os.environ, **self.environ}
        processes.spawn(command, owner, owner / "kdc.log", environ)

    def kinit(self, cache: Path) -> None:
        """Get alice's ticket into a cache file."""
        self._run("kinit", "-c", str(cache), f"alice@{REALM}", stdin=PASSWORD + "\n")

    def _run(self, program: str, *args: str, stdin: str = "") -> None:
        path = _find(program)
        assert path, HOW
        done = subprocess.run(
            [path, *args],
            env={**os.environ, **self.environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{program} {args}: {done.stdout}{done.stderr}"
