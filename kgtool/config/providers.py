"""Kafka's configuration providers: values from elsewhere, ``${provider:path:key}``.

``${env:NAME}``, ``${file:/path/of.properties:key}`` and ``${dir:/folder:file}`` are always known
under these names; ``config.providers`` may give them others, and may restrict them, as in Kafka
(EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider). A variable of an unknown
provider stays as it is, as in ConfigTransformer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from kgtool.config.properties import Properties, read_properties
from kgtool.errors import ConfigError
from kgtool.held import hold

_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""``ConfigTransformer.DEFAULT_PATTERN``."""

_PACKAGE = "org.apache.kafka.common.config.provider."
_CLASSES = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
}

Lookup = Callable[[str, str], str]


def resolve(properties: Properties, environ: Mapping[str, str], where: str) -> Properties:
    """Replace the variables in all values.

    :param where: the file or context that holds them, for messages.
    :raises ConfigError: a variable can't be resolved.
    """
    if not any("${" in value for value in properties.values()):
        return properties
    providers = _providers(properties, environ, where)
    plain = Properties()
    for key, value in properties.items():
        plain[key] = value if key.startswith("config.providers") else _expand(key, value, providers)
    return plain


def _expand(key: str, value: str, providers: Mapping[str, Lookup]) -> str:
    def replace(match: re.Match[str]) -> str:
        lookup = providers.get(match[1])
        if lookup is None:
            return match[0]
        try:
            return lookup(match[3] or "", match[4])
        except ConfigError as error:
            raise ConfigError(f"{key}: {error.message}", hint=error.hint) from None

    return _VARIABLE.sub(replace, value)


def _providers(properties: Properties, environ: Mapping[str, str], where: str) -> dict[str, Lookup]:
    found = {kind: _make(kind, {}, environ) for kind in _CLASSES.values()}
    for name in filter(None, re.split(r"\s*,\s*", properties.value("config.providers") or "")):
        prefix = f"config.providers.{name}."
        class_name = properties.value(f"{prefix}class") or ""
        kind = _CLASSES.get(class_name.removeprefix(_PACKAGE))
        if kind is None:
            raise ConfigError(
                f"{prefix}class={class_name} in {where} can't be used: kgtool knows Kafka's own "
                "providers (EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider)."
            )
        params = {
            key.removeprefix(f"{prefix}param."): value
            for key, value in properties.items()
            if key.startswith(f"{prefix}param.")
        }
        found[name] = _make(kind, params, environ)
    return found


def _make(kind: str, params: Mapping[str, str], environ: Mapping[str, str]) -> Lookup:
    if kind == "env":
        return _from_environment(environ, params.get("allowlist.pattern", ".*"))
    allowed = tuple(filter(None, map(str.strip, params.get("allowed.paths", "").split(","))))
    return _from_file(allowed) if kind == "file" else _from_folder(allowed)


def _from_environment(environ: Mapping[str, str], allowed: str) -> Lookup:
    def look_up(path: str, key: str) -> str:
        if path:
            raise ConfigError(f"${{env:{path}:{key}}} should be ${{env:{key}}}.")
        if key not in environ or not re.fullmatch(allowed, key):
            raise ConfigError(f"the environment variable {key} is not set.")
        return environ[key]

    return look_up


def _from_file(allowed: tuple[str, ...]) -> Lookup:
    files: dict[str, Properties] = {}

    def look_up(path: str, key: str) -> str:
        real = _real(path, allowed)
        if real not in files:
            files[real] = read_properties(real)
        if key not in files[real]:
            raise ConfigError(f"{path} has no {key}.")
        return files[real][key]

    return look_up


def _from_folder(allowed: tuple[str, ...]) -> Lookup:
    def look_up(path: str, key: str) -> str:
        if "/" in key or key in ("", ".", ".."):
            raise ConfigError(f"{key} is not the name of a file in {path}.")
        _real(path, allowed)
        return hold(_real(os.path.join(path, key), allowed)).text()  # noqa: PTH118

    return look_up


def _real(path: str, allowed: tuple[str, ...]) -> str:
    """Return where a path leads, through all links, which must be below ``allowed.paths``."""
    if not path:
        raise ConfigError("a file is missing: it is written ${file:/path/of.properties:key}.")
    # Not by pathlib, which costs start-up time; the path need not exist.
    real = os.path.realpath(path)
    if allowed and not any(_is_below(real, os.path.realpath(place)) for place in allowed):
        raise ConfigError(f"{path} is not below allowed.paths ({', '.join(allowed)}).")
    return real if allowed else path  # of a pipe (/dev/fd/63) only the name given can be opened


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
