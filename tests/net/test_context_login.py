"""A context's login goes to that context's brokers only, whatever else names an address."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool.config.contexts import Context, load, put
from tests.cli.run import Result, call
from tests.net.ear import Ear
from tests.support.outcomes import Outcome
from tests.support.secure import ALICE, SecureKafka

pytestmark = pytest.mark.broker

PASSWORD = ALICE[1].encode()
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}

RULES = (
    ({"typed", "flag"}, "typed", "flag"),
    ({"typed"}, "typed", None),
    ({"flag"}, "flag", "flag"),
    ({"variable"}, "variable", "variable"),
    ({"address"}, "address", None),
    ({"in use"}, "in use", "in use"),
    (set(), None, None),
)
"""Of what is given, the first row that fits: where kgtool goes, and whose login it takes there."""

GIVEN = ("typed", "flag", "variable", "address", "in use")
CASES = [
    frozenset(chosen)
    for count in range(len(GIVEN) + 1)
    for chosen in itertools.combinations(GIVEN, count)
]


@pytest.fixture(scope="module")
def ears(secure: SecureKafka) -> Iterator[dict[str, Ear]]:
    """An address for each source: each is a SASL listener that would take the login."""
    made = {name: Ear(secure.ports["SASL"]) for name in GIVEN}
    yield made
    for ear in made.values():
        ear.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PW", ALICE[1])
    for name in ("KGTOOL_CONTEXT", "KGTOOL_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)


def add(name: str, ear: Ear | None, *, use: bool = False) -> None:
    """A context that is told by its client id."""
    properties = {**PLAIN, "client.id": f"of-{name.replace(' ', '-')}"}
    place = ear and ear.address
    put(Context(name, place, None, ALICE[0], properties, {"password": "env:PW"}), use=use)


def told(ears: dict[str, Ear]) -> dict[str, str | None]:
    """Who was asked, and with whose login."""
    return {name: _login(ear.heard) for name, ear in ears.items() if ear.heard}


def _login(heard: bytes) -> str | None:
    contexts = [name for name in GIVEN if f"of-{name.replace(' ', '-')}".encode() in heard]
    assert bool(contexts) == (PASSWORD in heard) and len(contexts) <= 1
    return contexts[0] if contexts else None


@pytest.mark.parametrize("given", CASES, ids=lambda given: "+".join(sorted(given)) or "nothing")
def test_every_combination_of_what_names_a_cluster(
    given: frozenset[str],
    ears: dict[str, Ear],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: Outcome,
) -> None:
    """Was: ``--context prod`` with KGTOOL_BOOTSTRAP_SERVER sent prod's password there."""
    for name in ("flag", "variable", "in use"):
        add(name, ears[name], use=name == "in use" and name in given)
    if "variable" in given:
        monkeypatch.setenv("KGTOOL_CONTEXT", "variable")
    if "address" in given:
        monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", ears["address"].address)
    argv = ["list", "--timeout", "8000"]
    argv += ["--context", "flag"] if "flag" in given else []
    argv += ["--bootstrap-server", ears["typed"].address] if "typed" in given else []
    place, login = next((to, whose) for needs, to, whose in RULES if needs <= given)

    for ear in ears.values():
        ear.heard = b""
    shown = " + ".join(name for name in GIVEN if name in given) or "nothing"
    with outcome("Whose login goes where", shown, "outcome") as cell:
        result: Result = call(capsys, *argv)
        assert told(ears) == ({place: login} if place else {})
        assert result.status == (0 if login else 4 if place else 2), result
        assert ALICE[1] not in result.out + result.err
        is_ignored = place in ("flag", "variable") and "address" in given
        assert ("KGTOOL_BOOTSTRAP_SERVER is ignored" in result.err) == is_ignored
        # A context is pinned to what answers at its own address, never to another one.
        pinned = {name for name, context in load().by_name.items() if context.cluster_id}
        assert pinned == ({login} if login and login == place else set())
        cell.says(f"to {place}, login of {login}" if place else "refused: no cluster is named")


def test_a_pinned_context_refuses_another_cluster_at_a_typed_address(
    ears: dict[str, Ear], capsys: pytest.CaptureFixture[str]
) -> None:
    add("flag", ears["flag"])
    put(load().get("flag")._replace(cluster_id="not-this-one"))
    result = call(capsys, "list", "--context", "flag", "--bootstrap-server", ears["typed"].address)
    assert (result.status, result.out) == (4, "")
    assert "not-this-one" in result.err


def test_another_file_gets_nothing_of_a_context_from_the_variable(
    ears: dict[str, Ear],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A context that has no address of its own: the file's is another cluster's."""
    add("variable", None)
    file = tmp_path / "other.properties"
    file.write_text(f"bootstrap.servers={ears['typed'].address}\n")
    ears["typed"].heard = b""
    monkeypatch.setenv("KGTOOL_CONTEXT", "variable")
    assert call(capsys, "list", "--command-config", str(file)).status == 4
    assert ears["typed"].heard and PASSWORD not in ears["typed"].heard

    argv = ("list", "--command-config", str(file), "--context", "variable")
    assert call(capsys, *argv).status == 0  # both were typed
    assert PASSWORD in ears["typed"].heard
    assert load().by_name["variable"].cluster_id is None


def test_a_context_without_an_address_takes_none_from_the_variable(
    ears: dict[str, Ear], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add("flag", None)
    monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", ears["address"].address)
    ears["address"].heard = b""
    result = call(capsys, "list", "--context", "flag")
    assert result.status == 2 and "bootstrap-server" in result.err
    assert not ears["address"].heard
