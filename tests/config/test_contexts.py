"""Profiles: what the file says, where secrets come from, and which cluster a name leads to."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kgtool.config import Settings, has_cluster, settings
from kgtool.config.contexts import Context, load, pin, put, remove, use
from kgtool.config.logins import PasswordLogin, Secret
from kgtool.config.paths import contexts_file
from kgtool.errors import ConfigError, WrongCluster

SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KGTOOL_CONTEXT", "KGTOOL_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path


def found(*args: object, **options: object) -> Settings:
    made = settings(*args, **options)  # type: ignore[arg-type]
    assert made is not None
    return made


def test_a_profile_comes_back_as_it_was() -> None:
    odd = 'a "b" \\ \n\t\x01 ü 😀 = # [x]'
    profile = Context(
        "prod.eu-1",
        "b1:1,b2:2",
        "/etc/c d.properties",
        odd,
        {"security.protocol": "SSL", odd: odd},
        {"ssl.key.password": "env:X", odd: "file:/y"},
        True,
        "JfWq",
    )
    put(profile)
    put(Context("plain", "b:1"))
    assert load().by_name == {"prod.eu-1": profile, "plain": Context("plain", "b:1")}
    assert load().current is None


def test_the_file_is_for_its_owner_alone() -> None:
    put(Context("a", "b:1"))
    assert stat.S_IMODE(Path(contexts_file()).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(contexts_file()).parent.stat().st_mode) == 0o700


def test_a_file_that_somebody_wrote() -> None:
    Path(contexts_file()).parent.mkdir(parents=True)
    Path(contexts_file()).write_text(
        '# mine\ncurrent = "dev"\n[contexts.dev]\nbootstrap = "b:1"\nother = 3\n'
        '[contexts."p"]\nprotected = true\n[contexts.p.properties]\n"client.id" = \'x\'\n'
    )
    assert load().current == "dev"
    assert not load().by_name["dev"].is_protected
    assert load().by_name["p"] == Context("p", properties={"client.id": "x"}, is_protected=True)


@pytest.mark.parametrize(
    "text",
    ["current = ", "[contexts.a]\nbootstrap = 7\n", "contexts = 1", "[contexts]\na = 1", "\xff"],
)
def test_a_file_that_cannot_be_read_is_named(text: str) -> None:
    Path(contexts_file()).parent.mkdir(parents=True)
    Path(contexts_file()).write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"contexts\.toml"):
        load()


def test_what_names_the_cluster() -> None:
    """Address typed > context chosen > address in the environment > context in use."""
    put(Context("a", "a:1"))
    put(Context("b", "b:1"), use=True)
    assert found().bootstrap == (("b", 1),)
    assert found(context="a").bootstrap == (("a", 1),)
    assert found(context="a", bootstrap="c:1").bootstrap == (("c", 1),)
    env = {"KGTOOL_CONTEXT": "a"}
    assert found(environ=env).bootstrap == (("a", 1),)
    assert found(environ=env, context="b").bootstrap == (("b", 1),)
    env["KGTOOL_BOOTSTRAP_SERVER"] = "e:1"
    assert found(environ=env).bootstrap == (("a", 1),)
    assert any("KGTOOL_BOOTSTRAP_SERVER is ignored" in note for note in found(environ=env).notes)
    assert found(environ={**env, "KGTOOL_BOOTSTRAP_SERVER": "a:1"}).notes == ()
    assert found(environ=env, context="a", bootstrap="c:1").notes == (), "it was typed"
    del env["KGTOOL_CONTEXT"]
    assert found(environ=env).bootstrap == (("e", 1),)
    assert has_cluster()
    use(None)
    assert settings() is None
    assert not has_cluster()


def test_a_context_is_not_taken_where_another_cluster_is_named(tmp_path: Path) -> None:
    """Its login would be shown to a stranger."""
    put(Context("a", "a:1", None, "alice", SCRAM, {"password": "env:PW"}), use=True)
    env = {"PW": "secret"}
    assert found(environ=env).security is not None
    assert found("other:1", environ=env).security is None
    assert found(environ={**env, "KGTOOL_BOOTSTRAP_SERVER": "other:1"}).security is None
    assert found("other:1", environ={**env, "KGTOOL_CONTEXT": "a"}).security is None
    (tmp_path / "c.properties").write_text("bootstrap.servers=other:1\n")
    assert found(command_config=str(tmp_path / "c.properties"), environ=env).security is None


def test_properties_of_a_context_win_over_those_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text(
        "bootstrap.servers=file:1\nclient.id=file\nrequest.timeout.ms=5\n"
    )
    put(Context("a", None, str(tmp_path / "c.properties"), properties={"client.id": "mine"}))
    made = found(context="a")
    assert made.bootstrap == (("file", 1),)
    assert made.client_id == "mine"
    assert made.properties["request.timeout.ms"] == "5"


def test_a_context_is_at_its_own_address_or_not(tmp_path: Path) -> None:
    """Only there is the cluster that answers remembered as its own."""
    file, other = tmp_path / "c.properties", tmp_path / "other.properties"
    file.write_text("bootstrap.servers=file:1\n")
    other.write_text("bootstrap.servers=other:1\n")
    put(Context("a", None, str(file)))
    put(Context("b", None, properties={"bootstrap.servers": "b:1"}))
    assert found(context="a").is_own_address
    assert found(context="b", command_config=str(other)).is_own_address
    assert not found(context="a", command_config=str(other)).is_own_address
    assert not found("typed:1", context="a").is_own_address


def test_an_unknown_context_names_those_that_are_known() -> None:
    put(Context("dev", "a:1"))
    with pytest.raises(ConfigError, match="known: dev"):
        settings(context="prod")
    with pytest.raises(ConfigError, match="prod"):
        use("prod")
    with pytest.raises(ConfigError, match="prod"):
        remove("prod")


# -- secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["plain", 'q"uo\\te', "${env:HOME}", "line\nend", " x "])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_secrets_by_reference(tmp_path: Path, password: str, mechanism: str) -> None:
    """A secret is taken as it is, whatever characters it has."""
    (tmp_path / "secret").write_text(password + "\n")
    properties = {**SCRAM, "sasl.mechanism": mechanism}
    for reference in ("env:PW", f"file:{tmp_path}/secret"):
        put(Context("a", "a:1", None, 'al"ice', properties, {"password": reference}))
        made = found(context="a", environ={"PW": password})
        assert made.security is not None and made.security.sasl is not None
        assert made.security.sasl.login == PasswordLogin('al"ice', Secret(password))
        assert password not in repr(made).replace("alice", "") or password == " x "


def test_a_secret_of_a_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = ModuleType("keyring")
    keyring.errors = ModuleType("errors")  # type: ignore[attr-defined]
    keyring.errors.KeyringError = RuntimeError  # type: ignore[attr-defined]
    stored = {("kafka/eu", "alice"): "from the keyring"}
    keyring.get_password = lambda *key: stored.get(key)  # type: ignore[attr-defined]
    put(Context("a", "a:1", None, "alice", SCRAM, {"password": "keyring:kafka/eu/alice"}))
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    made = found(context="a")
    assert made.security is not None and made.security.sasl is not None
    assert made.security.sasl.login == PasswordLogin("alice", Secret("from the keyring"))
    stored.clear()
    with pytest.raises(ConfigError, match="not in the keyring"):
        settings(context="a")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="keyring is not installed"):
        settings(context="a")


@pytest.mark.parametrize("reference", ["env:NOT_SET", "file:/nowhere", "h1dden", "vault:x"])
def test_a_secret_that_is_not_there_names_the_property_and_the_context(reference: str) -> None:
    put(Context("a", "a:1", None, "alice", SCRAM, {"password": reference}))
    with pytest.raises(ConfigError, match="password of the context a") as caught:
        settings(context="a", environ={})
    assert "h1dden" not in str(caught.value)


def test_other_secrets_are_properties() -> None:
    tls = {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"}
    put(Context("a", "a:1", None, None, tls, {"ssl.truststore.password": "env:T"}))
    made = found(context="a", environ={"T": "h1dden"})
    assert made.security is not None and made.security.tls is not None
    assert made.security.tls.trust is not None
    assert made.security.tls.trust.password == Secret("h1dden")
    assert "h1dden" not in repr(made)


# -- which cluster ----------------------------------------------------------------------------


def test_the_first_cluster_is_remembered_and_another_one_refused() -> None:
    put(Context("a", "a:1"))
    load().get("a").check("one")
    pinned = load().get("a")
    assert pinned.cluster_id == "one"
    pinned.check("one")
    with pytest.raises(WrongCluster, match="one.*two") as caught:
        pinned.check("two")
    assert caught.value.exit_code == 4
    assert load().get("a").cluster_id == "one"


def test_a_cluster_that_does_not_tell_its_id_is_neither_refused_nor_remembered() -> None:
    put(Context("a", "a:1"))
    load().get("a").check(None)
    assert load().get("a").cluster_id is None
    load().get("a").check("one")
    load().get("a").check(None)
    assert load().get("a").cluster_id == "one"


def test_the_first_one_stays_if_two_are_at_it() -> None:
    put(Context("a", "a:1"))
    both = [load().get("a"), load().get("a")]
    both[0].check("one")
    both[1].check("two")
    assert load().get("a").cluster_id == "one"


def test_many_processes_lose_nothing() -> None:
    code = "import sys; from kgtool.config.contexts import *; put(Context(sys.argv[1], 'a:1'))"
    running = [subprocess.Popen([sys.executable, "-c", code, f"c{n}"]) for n in range(6)]
    assert [process.wait(60) for process in running] == [0] * 6
    assert set(load().by_name) == {f"c{n}" for n in range(6)}


def test_a_context_that_is_gone_is_not_made_again_by_its_pin() -> None:
    pin("gone", "one")
    assert load().by_name == {}


def test_removing_the_current_one_leaves_none() -> None:
    put(Context("a", "a:1"), use=True)
    remove("a")
    assert load() == (None, {})
