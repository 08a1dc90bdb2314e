"""``kgtool context``: manage connection profiles."""

from __future__ import annotations

import os
from typing import NamedTuple

import click

from kgtool.cli.options.declare import flag, group, option, repeatable
from kgtool.cli.options.shared import line_of, output_options
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.columns import shown
from kgtool.columns.tools import CONTEXT, CONTEXTS
from kgtool.config import contexts, parse_bootstrap
from kgtool.config.contexts import NAME, Context, check_reference, load
from kgtool.config.known_properties import suspicious_names
from kgtool.config.policy import read_policy
from kgtool.config.properties import Properties, is_secret
from kgtool.errors import UsageError
from kgtool.text import escape


class Line(NamedTuple):
    """The options of ``context add``; paths and references as they were given."""

    bootstrap_server: str | None
    command_config: str | None
    properties: tuple[str, ...]
    user: str | None
    password: str | None
    secrets: tuple[str, ...]
    protected: bool | None
    """None: by the name."""
    cluster_id: str | None
    policy: str | None
    replace: bool
    use_it: bool


@group(
    "context",
    "kgtool context add dev --bootstrap-server localhost:9092 --use",
    "kgtool context add prod-eu --command-config /etc/kafka/client.properties",
    "kgtool context add prod-us --bootstrap-server b1:9093 --property security.protocol=SASL_SSL "
    "--property sasl.mechanism=SCRAM-SHA-512 --user alice --password env:KAFKA_PASSWORD",
    "kgtool --context prod-eu list",
)
def command() -> None:
    """Manage connection profiles, each with its policy.

    A profile names a cluster: its brokers, its security, and secrets by reference only. The
    cluster's id is remembered at the first use, and another cluster behind the same name is
    refused. From then on --protected and --policy hold for that cluster, however it is reached:
    --yes and Kafka's form then take --confirm CLUSTER_ID. Profiles are in
    ~/.config/kgtool/contexts.toml.
    """


@command.command("add")
@click.argument("name")
@option("--bootstrap-server", "HOST:PORT,...", "The brokers to ask first.")
@option(
    "--command-config",
    "FILE",
    "A Java properties file with the client's configuration.",
    type=click.Path(),
)
@repeatable(
    "--property properties", "KEY=VALUE", "A property that overrides the file's; repeatable."
)
@option("--user", "NAME", "The user of PLAIN or SCRAM.")
@option("--password", "REF", "Where the password is: env:NAME, file:PATH, keyring:SERVICE/USER.")
@repeatable(
    "--secret secrets", "KEY=REF", "A secret property, such as ssl.keystore.password; repeatable."
)
@flag(
    "--protected/--not-protected",
    "Ask twice before changing this cluster, and require "
    "--confirm with --yes (default: names starting with prod).",
    default=None,
)
@option("--cluster-id", "ID", "The cluster's id (default: learned at first use).")
@option(
    "--policy",
    "FILE",
    "A TOML file that limits what may be changed on the cluster.",
    type=click.Path(),
)
@flag("--replace", "Replace the context of this name.")
@flag("--use use_it", "Use it by default.")
@output_options
@line_of(Line)
def add(output: Output, name: str, line: Line) -> None:
    """Add a context."""
    _check_name(name)
    if name in contexts.load().by_name and not line.replace:
        raise UsageError(f"There is a context {name} already: --replace replaces it.")
    references = [*line.secrets, *([f"password={line.password}"] if line.password else [])]
    made = Context(
        name,
        line.bootstrap_server,
        _absolute(line.command_config),
        line.user,
        dict(_pair(word, "--property") for word in line.properties),
        dict(_pair(word, "--secret") for word in references),
        name.startswith("prod") if line.protected is None else line.protected,
        line.cluster_id,
        _absolute(line.policy),
    )
    _check(made)
    _warn(output, made)
    contexts.put(made, use=line.use_it)
    _show(output, [made])
    if (made.is_protected or made.policy) and made.cluster_id is None:
        output.note(
            f"It guards the cluster only as --context {name} until its id is known: "
            f"kgtool --context {name} list learns it."
        )


@command.command("list")
@output_options
def list_(output: Output) -> None:
    """List the contexts."""
    known = load()
    if not known.by_name:
        output.note("There is no context yet: kgtool context add NAME --bootstrap-server HOST:PORT")
    _show(output, [known.by_name[name] for name in sorted(known.by_name)])


@command.command("use")
@click.argument("name", required=False)
@flag("--none", "Have no default context.")
@output_options
def use(output: Output, name: str | None, none: bool) -> None:
    """Make a context the default."""
    if (name is None) == (not none):
        raise UsageError("Give a context's name, or --none.")
    contexts.use(name)
    _show(output, [] if name is None else [contexts.load().get(name)])


@command.command("show")
@click.argument("name", required=False)
@output_options
def show(output: Output, name: str | None) -> None:
    """Show a context, the one in use by default; secrets by reference."""
    known = load()
    if name is None and known.current is None:
        raise UsageError("No context is in use: name one. kgtool context list shows them.")
    found = known.get(name or known.current or "")
    row = {
        **_row(found, known.current),
        "user": found.user,
        "policy": found.policy,
        "properties": dict(found.properties),
        "secrets": dict(found.secrets),
    }
    output.begin(CONTEXT)
    output.item(row)
    for key, value in row.items():
        for line in _lines(key, value):
            output.text(line)


def _lines(key: str, value: object) -> list[str]:
    label = key.replace("_", " ")
    if isinstance(value, dict):
        return [f"{label:<15} {escape(f'{name}={value[name]}')}" for name in sorted(value)]
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return [] if value is None else [f"{label:<15} {escape(str(value))}"]


@command.command("rename")
@click.argument("old")
@click.argument("new")
@output_options
def rename(output: Output, old: str, new: str) -> None:
    """Give a context another name."""
    _check_name(new)
    contexts.rename(old, new)
    _show(output, [contexts.load().get(new)])


@command.command("remove")
@click.argument("name")
@output_options
def remove(output: Output, name: str) -> None:
    """Remove a context."""
    removed = contexts.load().get(name)
    contexts.remove(name)
    _show(output, [removed], quiet=True)


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(path) if path else None  # noqa: PTH100


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"A context can't be called {name!r}: letters, digits, '.', '_' and '-'.")


def _pair(word: str, option: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} takes KEY=VALUE, not what begins with {key[:20]!r}.")
    return key.strip(), value.strip()


def _check(made: Context) -> None:
    """Refuse a context without brokers, invalid values, and secrets in plain text."""
    if made.bootstrap is not None:
        parse_bootstrap(made.bootstrap)
    elif made.command_config is None and "bootstrap.servers" not in made.properties:
        raise UsageError("A context needs --bootstrap-server, or a --command-config that has it.")
    if (made.user is None) != ("password" not in made.secrets):
        raise UsageError("--user and --password belong together.")
    protocol = made.properties.get("security.protocol", "" if made.command_config else "PLAINTEXT")
    if made.user is not None and protocol.upper() in ("PLAINTEXT", "SSL"):
        raise UsageError(
            "--user needs a listener with a login: --property "
            "security.protocol=SASL_SSL --property sasl.mechanism=SCRAM-SHA-512"
        )
    if made.policy is not None:
        read_policy(made.policy)
    for key, reference in made.secrets.items():
        check_reference(reference, "--password" if key == "password" else f"--secret {key}")
    for key, value in made.properties.items():
        if is_secret(key) and "${" not in value:
            raise UsageError(
                f"{key} is a secret, and does not belong in a file or a command line: give "
                f"--secret {key}=env:NAME (or file:PATH, keyring:SERVICE/USER)."
            )


def _warn(output: Output, made: Context) -> None:
    """Warn of unknown properties that look like typos."""
    names = [*made.properties, *(key for key in made.secrets if key != "password")]
    for note in suspicious_names(Properties(dict.fromkeys(names, "")), f"The context {made.name}"):
        output.note(f"Warning: {escape(note)}")


def _show(output: Output, found: list[Context], quiet: bool = False) -> None:
    current = load().current
    rows = [_row(context, current) for context in found]
    output.begin(CONTEXTS)
    for row in rows:
        output.item(row)
    if not quiet:
        show_table(output, shown(CONTEXTS), rows)


def _row(context: Context, current: str | None) -> dict[str, object]:
    return build_row(
        context,
        CONTEXTS,
        context=context.name,
        current=context.name == current,
        protected=context.is_protected,
    )
