"""Man pages: one for the program, one for each command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kgtool import __version__
from kgtool.cli.app.argv import MAYBE, NO
from kgtool.cli.app.help import fold
from kgtool.cli.app.overview import EXAMPLES, KAFKA_OPTIONS, OWN_OPTIONS, VIEW_OPTIONS
from kgtool.cli.app.tree import Command, Option, walk

EXIT_STATUS = {
    "0": "Everything asked for was done.",
    "1": "Nothing of it could be done.",
    "2": "Wrong usage, a bad configuration or input file; nothing was sent.",
    "3": "Some of it was done; each failure is named on stderr and in the output.",
    "4": "The cluster could not be reached or resolved, or it refused the login.",
    "5": "Looked, and found what you asked to be warned of.",
    "130": "Interrupted (143: by SIGTERM); what was already changed is in the journal.",
}
ENVIRONMENT = {
    "KGTOOL_BOOTSTRAP_SERVER": "The brokers to ask first, where --bootstrap-server is not given.",
    "KGTOOL_CONTEXT": "The connection profile to use, where --context is not given.",
    "KGTOOL_JOURNAL_DIR": "Where the journal of changes is kept (default: the user's state "
    "folder).",
    "KGTOOL_PAGER, PAGER": "What shows long tables on a terminal (default: less, with LESS=FRX). "
    "Empty or cat: nothing.",
    "NO_COLOR": "If not empty, no colours.",
    "KGTOOL_COMPLETE_MS": "How long completions may wait for names from the cluster, in ms "
    "(default: 300).",
}


def program_page(program: Command) -> str:
    """Return man/kgtool.1."""
    body = [
        *_head("kgtool", program.help),
        ".SH SYNOPSIS",
        ".nf",
        r"\fBkgtool\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]",
        r"\fBkgtool \-\-bootstrap\-server\fR \fIHOST:PORT\fR \fB\-\-list\fR|\fB\-\-describe\fR|..."
        " (Kafka's form)",
        ".fi",
        ".SH DESCRIPTION",
        *_text(
            "Shows and changes Kafka consumer groups and their committed offsets. What "
            "kafka-consumer-groups.sh 4.3.1 accepts, kgtool accepts with the same arguments, "
            "and prints the same tables; the commands do the same and more, and ask before "
            "they change anything.\n\nData goes to stdout, everything else to stderr."
        ),
        ".SH COMMANDS",
        *_table({f"kgtool-{inner.name}(1)": inner.short for inner in program.commands}),
        ".SH OPTIONS",
        *_text("Before or after the command:"),
        *_table(OWN_OPTIONS),
        ".SH KAFKA'S FORM",
        *_text("One action and the options of kafka-consumer-groups.sh:"),
        *_table(KAFKA_OPTIONS),
        *_text("With --describe, also:"),
        *_table(VIEW_OPTIONS),
        *_tail(EXAMPLES),
        ".SH ENVIRONMENT",
        *_table(ENVIRONMENT),
        ".SH SEE ALSO",
        *_links(f"kgtool-{inner.name}" for inner in program.commands),
    ]
    return "\n".join(body) + "\n"


def command_page(command: Command) -> str:
    """Return the page of a command, with those below it."""
    name = f"kgtool-{command.name}"
    parts = list(walk(command))
    body = [*_head(name, command.short), ".SH SYNOPSIS", ".nf"]
    body += [_synopsis(part) for part in parts if not part.commands]
    body += [".fi", ".SH DESCRIPTION", *_text(command.help)]
    common = [option for part in parts for option in part.options if option.is_common]
    for part in parts:
        own = [option for option in part.options if not option.is_common]
        if part is not command:
            body += [f".SH {_escape(' '.join(part.path).upper())}", *_text(part.help)]
        elif own and not part.commands:
            body.append(".SH OPTIONS")
        if own and not part.commands:
            body += _options(own)
    if common:
        names = dict.fromkeys(option.names[-1] for option in common)
        said = f"And those that all commands have, see kgtool(1): {', '.join(names)}."
        body += [".PP", *_text(said)[1:]]
    body += _tail([line for part in parts for line in part.examples])
    body += [".SH SEE ALSO", *_links(["kgtool"])]
    return "\n".join(body) + "\n"


def _head(name: str, short: str) -> list[str]:
    return [
        r".\" Made by `make docs` from the command line itself: do not edit.",
        f'.TH {_escape(name.upper())} 1 "" "kgtool {__version__}" "kgtool"',
        ".SH NAME",
        rf"{_escape(name)} \- {_escape(short[:1].lower() + short[1:].rstrip('.'))}",
    ]


def _tail(examples: Iterable[str]) -> list[str]:
    lines = [_escape(part) for line in examples for part in fold(line, 70)]
    return [".SH EXAMPLES", ".nf", *lines, ".fi", ".SH EXIT STATUS", *_table(EXIT_STATUS)]


def _synopsis(command: Command) -> str:
    words = [rf"\fB{_escape('kgtool ' + ' '.join(command.path))}\fR", r"[\fIOPTIONS\fR]"]
    words += [rf"\fI{_escape(argument.metavar)}\fR" for argument in command.arguments]
    return " ".join(words)


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(rf"\fB{_escape(name)}\fR" for name in option.names)
        if option.takes == MAYBE:
            names += rf" [\fI{_escape(option.metavar.strip('[]'))}\fR]"
        elif option.takes != NO:
            names += rf" \fI{_escape(option.metavar)}\fR"
        yield from (".TP", names, *_sentences(option.help))


def _table(entries: dict[str, str]) -> Iterator[str]:
    for name, text in entries.items():
        yield from (".TP", _bold(name), *_sentences(text))


def _bold(name: str) -> str:
    """Set literal words in bold, and placeholders in italics."""
    words = [
        rf"\fB{_escape(word)}\fR"
        if re.match(r"[-a-z0-9]|KGTOOL|NO_|PAGER|LESS", word)
        else rf"\fI{_escape(word)}\fR"
        for word in name.split(" ")
    ]
    return " ".join(words)


def _text(text: str) -> list[str]:
    lines: list[str] = []
    for part in text.split("\n\n"):
        lines += [".PP", *_sentences(part)]
    return lines


def _sentences(text: str) -> list[str]:
    """Put each sentence on a line of its own."""
    return [_escape(line) for line in re.split(r"(?<=[.;:]) (?=\S)", " ".join(text.split()))]


def _links(names: Iterable[str]) -> list[str]:
    return [", ".join(rf"\fB{_escape(name)}\fR(1)" for name in names)]


def _escape(text: str) -> str:
    r"""Escape what roff would read as its own.

    >>> _escape(".x --y")
    '\\&.x \\-\\-y'
    """
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = text.replace("'", r"\(aq").replace("`", r"\(ga").replace("^", r"\(ha")
    text = text.replace("~", r"\(ti").replace("…", "...").replace("→", "->")
    return rf"\&{text}" if text[:1] == "." else text
