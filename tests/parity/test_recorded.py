"""All 341 recorded runs of Kafka's tool 4.3.1: arguments are answered alike, and each has a test.

What kgtool answers otherwise is in docs/migration.rst ("Where kgtool departs from Kafka's
tool"), with its reason; a run may only be an exception here by what is written there.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli import recorded, reset_recorded, run
from tests.cli.recorded import Run

ROOT = Path(__file__).parents[2]
REST = ROOT / "tests" / "data" / "cli" / "rest-4.3.1.jsonl"
NOBODY = "127.0.0.1:1"
JOPT = re.compile(r'^Exception in thread "main" joptsimple\.\w+: ')
EXECUTING = re.compile(r"^Error: Executing consumer group command failed due to ")


def _all() -> dict[str, Run]:
    found = {run.name: run for run in (*recorded.runs(), *reset_recorded.runs())}
    for line in REST.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        argv = shlex.split(row["command"])[1:]
        found[row["name"]] = Run(row["name"], argv, row["exit"], row["stdout"], row["stderr"])
    return found


RUNS = _all()
RESETS = {run.name for run in reset_recorded.runs()}

# What is a matter of arguments, files and configuration alone. Kafka's tool ends some of these
# with status 0, after it has made a client.
IN_KAFKAS_WORDS = re.compile(
    r"Cannot parse argument|Found multiple arguments|Text cannot be parsed to a Duration"
)
DEPARTS: dict[str, dict[str, str]] = {
    "``--help`` is on stdout, with status 0": {
        "help": "Usage: kgtool",
        "opt-help-list": "Usage: kgtool",
        "noargs": "Usage: kgtool",
    },
    "``--version`` is kgtool's own": {"version": "kgtool "},
    "Stray arguments are refused": {
        "opt-positional": "Unexpected argument 'foo'",
        "opt-positional2": "Unexpected argument 'foo'",
    },
    "``--all-topics`` with ``--topic`` is refused": {
        "reset-bothscope": 'Option "[topic]" can\'t be used with option "[all-topics]"'
    },
    "A bad address or configuration is named": {
        "opt-bs-bad": "Invalid url in bootstrap.servers: localhost",
        "opt-bs-badport": "Invalid port in bootstrap.servers: localhost:99999",
        "opt-bs-empty": "No bootstrap server is given",
        "opt-bs-nodns": "can't be resolved",
        "opt-badconfig": "Can't read /nonexistent: No such file or directory.",
        "ff-missing": "Unable to read file csv/nofile.csv: No such file or directory.",
        "sec-bogus": "BOGUS",
        "sec-nojaas": "sasl.jaas.config",
        "sec-list-gss": "Kerberos",
    },
    "``--timeout`` takes at least 1 ms": {
        "opt-timeout-0": "--timeout takes at least 1 ms, not 0.",
        "opt-timeout-neg": "--timeout takes at least 1 ms, not -1.",
    },
    "Times need no milliseconds": {
        "reset-dt-1700000000000": "",
        "reset-dt-2023-11-14": "",
        "reset-dt-2023-11-14T22:18:20,000": "",
        "reset-dt-2023-11-14T22:18:20": "",
        "reset-dt-2023-11-14T22:18:20Z": "",
        "reset-dt-2023-13-14T22:18:20.000": "Unparseable date: '2023-13-14T22:18:20.000'",
        "reset-dur-1d": "",
        "reset-dt-garbage": "Unparseable date: 'garbage'",
        "reset-dt-2023-11-14T22:18:20.000Zjunk": "Unparseable date",
    },
    "An invalid ``--validate-regex`` is status 1": {
        "opt-regex-bad": "",
        "opt-regex-back": "",
        "opt-regex-lookahead": "",
    },
}
"""What docs/migration.rst says → the runs that end otherwise for it, and the words they
end with; where there are none, the line is accepted here."""

EXCEPTIONS = {name: text for runs in DEPARTS.values() for name, text in runs.items()}
CONTACTED = {"reset-shift-nocommitted", "ff-outofrange"}
"""Usage errors of Kafka's tool (status 1) that it finds in what the brokers or a file say."""

REGEXES = [run for run in RUNS.values() if "--validate-regex" in run.argv and run.exit == 0]
ARGUMENTS = [
    run
    for run in RUNS.values()
    if (run.exit == 1 or IN_KAFKAS_WORDS.search(run.stdout))
    and run.name not in EXCEPTIONS.keys() | CONTACTED
]


def _named(runs: list[Run]) -> list[Any]:
    assert runs
    return [pytest.param(run, id=run.name) for run in runs]


def _argv(recorded_run: Run) -> list[str]:
    argv = [NOBODY if word.startswith("127.0.0.1:") else word for word in recorded_run.argv]
    if recorded_run.name in RESETS:  # there, argv begins behind the address
        argv = ["--bootstrap-server", NOBODY, *argv]
    return argv


def _first_line(recorded_run: Run) -> str:
    if recorded_run.exit:
        lines = [line for line in recorded_run.stderr.splitlines() if line[:6] != "WARN: "]
        return JOPT.sub("", lines[0])
    return EXECUTING.sub("", recorded_run.stdout.strip().splitlines()[0])


def _words(text: str) -> list[str]:
    """Java's sets of names come in another order at each run."""
    return sorted(re.findall(r"[\w-]+", text))


@pytest.mark.parametrize("recorded_run", _named(ARGUMENTS))
def test_arguments_are_refused_in_kafkas_words(
    recorded_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run.call(capsys, *_argv(recorded_run))
    assert (result.status, result.out) == (2, "")
    (said,) = result.err.splitlines()
    said = said.removeprefix("Error: ").split(" (did you mean")[0]
    expected = _first_line(recorded_run)
    if "Duration" in expected:  # what was given and how to write it follow
        assert said.startswith(f"{expected}: ")
    else:
        assert _words(said) == _words(expected)


@pytest.mark.parametrize("recorded_run", _named(REGEXES))
def test_regular_expressions(recorded_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    result = run.call(capsys, *_argv(recorded_run))
    assert (result.out, result.err) == (recorded_run.stdout, "")
    assert (result.status == 1) == (recorded_run.name in EXCEPTIONS) == (" invalid" in result.out)


def _configuration(name: str) -> str:
    kind = {
        "sec-bogus": "BOGUS",
        "sec-nojaas": "SASL_PLAINTEXT\nsasl.mechanism=PLAIN",
        "sec-list-gss": "SASL_PLAINTEXT",
    }[name]
    return f"security.protocol={kind}\n"


@pytest.mark.parametrize(
    "recorded_run",
    _named([RUNS[name] for name in EXCEPTIONS if "regex" not in name and name != "sec-list-gss"]),
)
def test_exceptions(
    recorded_run: Run,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = _argv(recorded_run)
    if any(word.startswith("cfg/") for word in argv):
        Path("cfg").mkdir()
        path = argv[argv.index("--command-config") + 1]
        Path(path).write_text(_configuration(recorded_run.name))
    result = run.call(capsys, *argv)
    expected = EXCEPTIONS[recorded_run.name]
    if recorded_run.name in ("help", "opt-help-list", "version"):
        assert (result.status, result.err) == (0, "")
        assert result.out.startswith(expected)
        return
    assert result.out == ""
    if not expected or recorded_run.name == "opt-bs-nodns":
        assert result.status == 4  # as far as the network
    else:
        assert result.status == 2
    assert expected in result.err
    assert recorded_run.name == "noargs" or len(result.err.splitlines()) == 1


def test_every_exception_is_on_the_page() -> None:
    text = (ROOT / "docs" / "migration.rst").read_text(encoding="utf-8")
    section = text.split("Where kgtool departs from Kafka's tool\n")[1]
    plain = " ".join(section.split())
    for phrase in DEPARTS:
        assert phrase in plain, phrase
    for name in EXCEPTIONS:
        assert name in RUNS, name


# ---------------------------------------------------------------------------------------------
# Every run has a test

P = "tests/parity/"
BY_HAND = {
    f"{P}test_describe.py::test_a_missing_group": "desc-nosuch members-nosuch membersv-nosuch "
    "state-nosuch statev-nosuch",
    f"{P}test_describe.py::test_all_groups_byte_for_byte": "desc-all desc-multi-one-missing",
    f"{P}test_describe.py::test_a_timeout_of_a_millisecond": "opt-timeout-5",
    f"{P}test_delete.py::test_deleting_a_missing_group": "delete-again delete-nosuch",
    f"{P}test_delete.py::test_deleting_a_group_with_members": "delete-notempty "
    "delete-notempty-consumer",
    f"{P}test_delete.py::test_deleting_an_empty_group": "delete-ok delete-empty-consumer",
    f"{P}test_more.py::test_deleting_several_groups": "delete-dup delete-mixed delete-multi-ok",
    f"{P}test_more.py::test_names_are_taken_as_they_are": "desc-comma desc-emptystr "
    "delete-emptygroup",
    f"{P}test_more.py::test_a_group_without_members_and_offsets": "desc-g-classic-empty-nooff "
    "desc-n-empty-nooff",
    f"{P}test_more.py::test_groups_of_other_types": "connect-desc desc-s-share members-s-share "
    "membersv-s-share state-s-share statev-s-share",
    f"{P}test_more.py::test_groups_of_other_types_are_not_deleted": "connect-delete delete-share",
    f"{P}test_more.py::test_notes_stand_before_their_table": "desc-merged",
    f"{P}test_more.py::test_a_topic_that_went_away_under_a_member": "subdeleted-active "
    "subrecreated-active",
    f"{P}test_security.py::test_a_wrong_password_is_not_waited_for": "sec-list-bad "
    "sec-list-carol sec-list-carolbad sec-desc-bad sec-delete-bad sec-doff-bad sec-reset-bad",
    f"{P}test_security.py::test_what_is_denied_is_named": "sec-desc-alice sec-delete-alice "
    "sec-doff-alice-part sec-reset-alice acl-delete-alice acl-delete-bob acl-desc-alice-gagc",
    f"{P}test_security.py::test_the_right_password_lists_the_group": "sec-descall-alice "
    "zero-desc-all zero-delete-all zero-export zero-reset-all",
    f"{P}test_security.py::test_the_wrong_kind_of_listener": "sec-plaintext-to-sasl "
    "sec-sasl-to-plaintext",
    "tests/cli/test_parity.py::test_share_groups_in_the_form_of_kafkas_tool": "delete-empty-share",
    "tests/cli/test_refusals.py::test_accepted_as_far_as_the_network": "opt-singledash",
    "tests/cli/test_main.py::test_an_http_server_is_no_kafka": "opt-notkafka",
    "tests/cli/test_main.py::test_a_silent_server_costs_no_more_than_the_timeout": "blackhole-list "
    "blackhole-desc",
    "tests/cli/test_main.py::test_no_broker_at_all": "opt-unreachable opt-unreachable-delete "
    "opt-unreachable-desc opt-unreachable-doff opt-unreachable-reset",
    "tests/net/test_tls.py::test_a_failure_is_one_clear_sentence_in_under_5_s": "sec-list-ssl-"
    "untrusted",
    "tests/net/test_tls.py::test_without_tls_a_tls_listener_is_named": "sec-plaintext-to-ssl",
    "tests/net/test_kerberos.py::test_no_ticket": "sec-list-gss",
    "tests/cli/test_reset_brokers.py::test_authorisation_is_denied_per_item": "acl-reset-alice-dry "
    "acl-reset-alice-exec acl-reset-alice-gb-exec acl-reset-alice-t2 acl-reset-bob-dry",
    "tests/cli/test_reset_offsets.py::test_nothing_to_shift_fails_alone": "reset-shift-nocommitted",
    "tests/cli/test_reset_offsets.py::test_every_group_at_once": "reset-allgroups-dry "
    "reset-allgroups-export",
    "tests/changes/test_reset.py::test_an_invalid_topic_name": "reset-badtopicname",
    "tests/cli/test_reset_parity.py::test_files_with_unknown_partitions_do_not_hang": "ff-unkpart "
    "ff-unktopic",
}
NOT_COVERED = {
    "txn-delete": "deleting a group with a pending transaction: what is to happen is not decided"
}


def _ids(module: Any) -> set[str]:
    """The recorded runs that a module's tests are parametrized with."""
    marks = [
        mark
        for test in vars(module).values()
        for mark in getattr(test, "pytestmark", [])
        if callable(test)
    ]
    params = [p for mark in marks if mark.name == "parametrize" for p in mark.args[1]]
    return {p.id for p in params if isinstance(getattr(p, "values", [None])[0], Run)}


def test_every_run_has_a_test() -> None:
    from tests.cli import test_refusals, test_reset_csv_file, test_reset_offsets, test_tables
    from tests.parity import test_recorded

    assert len(RUNS) == 341
    held = set(EXCEPTIONS)
    for module in (
        test_refusals,
        test_reset_offsets,
        test_reset_csv_file,
        test_tables,
        test_recorded,
    ):
        held |= _ids(module)
    for test, names in BY_HAND.items():
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if hasattr(node, "name")}, test
        held |= set(names.split())
    assert RUNS.keys() - held == NOT_COVERED.keys()
