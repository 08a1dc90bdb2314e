"""Connection profiles: a TOML file in the user's config folder, secrets only by reference.

::

    current = "prod-eu"

    [contexts.prod-eu]
    bootstrap = "b1:9093,b2:9093"
    command_config = "/etc/kafka/client.properties"
    user = "alice"
    protected = true
    cluster_id = "JfWqPzL2RTmD8n4Ue0aYxA"
    policy = "/etc/kgtool/prod.toml"

    [contexts.prod-eu.properties]
    "security.protocol" = "SASL_SSL"
    "sasl.mechanism" = "SCRAM-SHA-512"

    [contexts.prod-eu.secrets]
    password = "env:KAFKA_PASSWORD"
    "ssl.truststore.password" = "file:/run/secrets/trust"

``cluster_id`` is written at the first use: after that, another cluster at this address is refused.
``protected`` and ``policy`` hold for that cluster, however it is reached. ``user`` and ``password``
stand for a ``sasl.jaas.config`` of PLAIN or SCRAM.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kgtool.config.paths import contexts_file
from kgtool.config.properties import Properties
from kgtool.errors import ConfigError, UsageError, WrongCluster
from kgtool.held import hold

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
"""Any login module will do: the mechanism decides."""
_TEXTS = ("bootstrap", "command_config", "user", "policy")
_HEAD = "# Written by `kgtool context`; comments are not kept. Secrets are references only.\n"


class Context(NamedTuple):
    """One profile; ``secrets`` maps properties (and ``password``) to references."""

    name: str
    bootstrap: str | None = None
    command_config: str | None = None
    user: str | None = None
    properties: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    is_protected: bool = False
    cluster_id: str | None = None
    policy: str | None = None

    def check(self, cluster_id: str | None, *, may_pin: bool = True) -> None:
        """Compare a cluster's id with that of this context; pin it if there is none yet.

        :param may_pin: the cluster answered at this context's own address.
        :raises WrongCluster: it is another cluster.
        """
        if cluster_id is None or cluster_id == self.cluster_id:
            return
        if self.cluster_id is None:
            if may_pin:
                with contextlib.suppress(OSError):  # a config folder that can't be written to
                    pin(self.name, cluster_id)
            return
        raise WrongCluster(
            f"The context {self.name} is for the cluster {self.cluster_id}, but the cluster "
            f"{cluster_id} answers at its address.",
            hint="If that is right, add the context again: kgtool context add "
            f"{self.name} --replace ...",
        )


class Contexts(NamedTuple):
    """All profiles, and the name of the one in use."""

    current: str | None
    by_name: dict[str, Context]

    def get(self, name: str) -> Context:
        """Return a profile.

        :raises ConfigError: there is none of that name.
        """
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ConfigError(
                f"There is no context {name!r}; known: {known}.",
                hint="kgtool context add creates one.",
            )
        return self.by_name[name]


def load() -> Contexts:
    """Read all profiles; none where there is no file.

    :raises ConfigError: the file can't be read.
    """
    path = contexts_file()
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            document = parse_toml(file.read())
        found = [_context(name, row) for name, row in document.get("contexts", {}).items()]
        current = document.get("current")
    except FileNotFoundError:
        return Contexts(None, {})
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"Can't read {path}: {error}.") from None
    return Contexts(current, {context.name: context for context in found})


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    :raises ValueError: malformed TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    document: dict[str, Any] = tomllib.loads(text)
    return document


def _context(name: str, row: dict[str, Any]) -> Context:
    texts = {key: row.get(key) for key in (*_TEXTS, "cluster_id")}
    tables = {key: Properties(row.get(key, {})) for key in ("properties", "secrets")}
    values = [value for value in texts.values() if value is not None]
    values += [value for table in tables.values() for value in table.values()]
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"a value of the context {name} is not text")
    if not isinstance(row.get("protected", False), bool):
        raise ValueError(f"protected of the context {name} is neither true nor false")
    return Context(name, **texts, **tables, is_protected=row.get("protected") is True)  # type: ignore[arg-type]


# -- changes ----------------------------------------------------------------------------------


def put(context: Context, *, use: bool = False) -> None:
    """Add or replace a profile."""
    with _locked() as known:
        current = context.name if use else known.current
        _save(Contexts(current, {**known.by_name, context.name: context}))


def use(name: str | None) -> None:
    """Make a profile the default; None: no default."""
    with _locked() as known:
        if name is not None:
            known.get(name)
        _save(known._replace(current=name))


def rename(old: str, new: str) -> None:
    """Rename a profile; it stays the default, if it was.

    :raises ConfigError: the old name does not exist, or the new one does.
    """
    with _locked() as known:
        found = known.get(old)
        if new in known.by_name:
            raise ConfigError(f"There is a context {new} already.")
        left = {key: value for key, value in known.by_name.items() if key != old}
        current = new if known.current == old else known.current
        _save(Contexts(current, {**left, new: found._replace(name=new)}))


def remove(name: str) -> None:
    """Remove a profile."""
    with _locked() as known:
        known.get(name)
        left = {key: value for key, value in known.by_name.items() if key != name}
        _save(Contexts(None if known.current == name else known.current, left))


def pin(name: str, cluster_id: str) -> None:
    """Save the cluster id of a profile that has none yet."""
    with _locked() as known:
        found = known.by_name.get(name)
        if found is not None and found.cluster_id is None:
            by_name = {**known.by_name, name: found._replace(cluster_id=cluster_id)}
            _save(known._replace(by_name=by_name))


@contextlib.contextmanager
def _locked() -> Iterator[Contexts]:
    """Read the profiles under a lock, so that no concurrent change is lost."""
    path = contexts_file()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    with open(f"{path}.lock", "a", encoding="utf-8") as lock:  # noqa: PTH123
        with contextlib.suppress(ImportError):  # not on Windows
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield load()


def _save(contexts: Contexts) -> None:
    from pathlib import Path

    from kgtool.durable import replace

    current = [] if contexts.current is None else [f"current = {_quoted(contexts.current)}\n"]
    sections = [_section(contexts.by_name[name]) for name in sorted(contexts.by_name)]
    document = "\n".join([_HEAD, *current, *sections])
    replace(Path(contexts_file()), [document.encode()], mode=0o600)


def _section(context: Context) -> str:
    prefix = f"contexts.{_key(context.name)}"
    lines = [f"[{prefix}]"]
    for key in _TEXTS:
        if (value := getattr(context, key)) is not None:
            lines.append(f"{key} = {_quoted(value)}")
    if context.is_protected:
        lines.append("protected = true")
    if context.cluster_id is not None:
        lines.append(f"cluster_id = {_quoted(context.cluster_id)}")
    for table in ("properties", "secrets"):
        pairs: Mapping[str, str] = getattr(context, table)
        if pairs:
            lines += ["", f"[{prefix}.{table}]"]
            lines += [f"{_key(key)} = {_quoted(value)}" for key, value in pairs.items()]
    return "\n".join(lines) + "\n"


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    """Write a TOML basic string: one of JSON, but for DEL."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- use --------------------------------------------------------------------------------------


def properties_of(context: Context, file: Properties, environ: Mapping[str, str]) -> Properties:
    """Return the client properties of a profile, secrets included.

    :param file: the profile's properties over those of its file, variables resolved.
    :raises ConfigError: a secret can't be looked up.
    """
    merged = Properties(file)
    secrets = {
        key: secret(reference, key, context.name, environ)
        for key, reference in context.secrets.items()
    }
    password = secrets.pop("password", None)
    merged.update(secrets)
    if context.user is not None and password is not None:
        from kgtool.config.jaas import jaas_line

        options = {"username": context.user, "password": password}
        merged["sasl.jaas.config"] = jaas_line(_MODULE, options)
    return merged


def secret(reference: str, key: str, context: str, environ: Mapping[str, str]) -> str:
    """Look a secret up: ``env:NAME``, ``file:PATH`` or ``keyring:SERVICE/USER``.

    :raises ConfigError: it does not exist, or the reference is malformed.
    """
    kind, _, rest = reference.partition(":")
    where = f"{key} of the context {context}"
    if kind == "env":
        if rest not in environ:
            raise ConfigError(f"{where} is in the environment variable {rest}, which is not set.")
        return environ[rest]
    if kind == "file":
        try:
            return hold(os.path.expanduser(rest)).text().rstrip("\r\n")  # noqa: PTH111
        except ConfigError as error:
            raise ConfigError(f"{where} can't be read from {rest}: {error}.") from None
    if kind == "keyring":
        return _from_keyring(rest, where)
    raise ConfigError(f"{where} is not a reference: env:NAME, file:PATH or keyring:SERVICE/USER.")


def _from_keyring(rest: str, where: str) -> str:
    service, _, user = rest.rpartition("/")
    try:
        import keyring
    except ImportError:
        raise ConfigError(
            f"{where} is in the keyring, but the package keyring is not installed.",
            hint="pip install keyring",
        ) from None
    try:
        found = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise ConfigError(f"{where} can't be read from the keyring: {error}.") from None
    if found is None:
        raise ConfigError(f"{where} is not in the keyring (service {service}, user {user}).")
    return str(found)


def check_reference(text: str, option: str) -> None:
    """Refuse a malformed reference, without showing it: it may be the secret itself.

    :raises UsageError: it is malformed.
    """
    kind, colon, rest = text.partition(":")
    if kind not in ("env", "file", "keyring") or not colon or not rest:
        raise UsageError(
            f"{option} takes a reference, not the secret itself: env:NAME, file:PATH or "
            "keyring:SERVICE/USER."
        )
    if kind == "keyring" and "/" not in rest:
        raise UsageError(f"{option}: a keyring's entry is written keyring:SERVICE/USER.")
