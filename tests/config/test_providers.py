"""Values that stand elsewhere: as Kafka's ConfigTransformer and its providers resolve them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.config.properties import Properties
from kgtool.config.providers import resolve
from kgtool.errors import ConfigError

ENV = {"USER_X": "alice", "PW": 'p"w'}
DECLARED = {
    "config.providers": "env,f,dir",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.f.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}


def value(text: str, **more: str) -> str:
    return resolve(Properties({"x": text, **more}), ENV, "client.properties")["x"]


def test_the_environment_is_known_without_a_declaration() -> None:
    assert value("${env:USER_X}") == "alice"
    assert value("a ${env:USER_X}, ${env:PW}!") == 'a alice, p"w!'


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("pass\\ word = \\u0041 b\nother=1\n")
    (tmp_path / "secret").write_text("from a file\n")
    assert value(f"${{file:{tmp_path}/s.properties:pass word}}") == "A b"
    assert value(f"${{dir:{tmp_path}:secret}}") == "from a file\n"


def test_what_nobody_defined_stays_as_it_is() -> None:
    for text in ("${vault:x:y}", "${USER_X}", "$env:USER_X", "${}", "${env", "$100"):
        assert value(text) == text


def test_names_are_those_of_config_providers(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("k=v\n")
    assert value(f"${{f:{tmp_path}/s.properties:k}}", **DECLARED) == "v"
    assert value("${env:USER_X}", **DECLARED) == "alice"


def test_kafka_resolves_alike(java: Any, tmp_path: Path) -> None:
    """The same file, resolved by Kafka's own AbstractConfig."""
    (tmp_path / "s.properties").write_text("k=v\nother = a b\n")
    (tmp_path / "secret").write_text("from a file\n")
    texts = [
        f"${{f:{tmp_path}/s.properties:k}}",
        f"a${{f:{tmp_path}/s.properties:other}}b",
        f"${{dir:{tmp_path}:secret}}",
        "${nobody:x}",
        "${env:PATH}",
        "plain",
        f"${{f:{tmp_path}/s.properties:k}}${{f:{tmp_path}/s.properties:k}}",
    ]
    import os

    for text in texts:
        originals = java.java.util.HashMap()
        for key, given in {**DECLARED, "x": text, "bootstrap.servers": "b:1"}.items():
            originals.put(key, given)
        config = java.org.apache.kafka.clients.admin.AdminClientConfig(originals)
        theirs = str(config.originals().get("x"))
        ours = resolve(Properties({**DECLARED, "x": text}), os.environ, "f")["x"]
        assert ours == theirs, text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${env:NOT_SET}", "NOT_SET is not set"),
        ("${file:/nowhere.properties:k}", "/nowhere.properties"),
        ("${dir:/nowhere:k}", "/nowhere/k"),
        ("${file:k}", "a file is missing"),
    ],
)
def test_what_is_missing_is_named_with_its_key(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="^x: ") as caught:
        value(text)
    assert said in str(caught.value)


def test_a_key_that_is_not_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("password=h1dden\n")
    with pytest.raises(ConfigError, match=r"has no passwort\.") as caught:
        value(f"${{file:{tmp_path}/s.properties:passwort}}")
    assert "h1dden" not in str(caught.value)


def test_restrictions_hold(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("k=v\n")
    inside = {"config.providers.f.param.allowed.paths": str(tmp_path)}
    itself = {"config.providers.f.param.allowed.paths": f"{tmp_path}/s.properties"}
    outside = {"config.providers.f.param.allowed.paths": f"{tmp_path}/other"}
    text = f"${{f:{tmp_path}/s.properties:k}}"
    assert value(text, **DECLARED, **inside) == value(text, **DECLARED, **itself) == "v"
    with pytest.raises(ConfigError, match="allowed.paths"):
        value(text, **DECLARED, **outside)
    with pytest.raises(ConfigError, match="allowed.paths"):
        value(f"${{f:{tmp_path}/other/../s.properties:k}}", **DECLARED, **outside)
    only = {"config.providers.env.param.allowlist.pattern": "USER_.*"}
    assert value("${env:USER_X}", **DECLARED, **only) == "alice"
    with pytest.raises(ConfigError, match="PW"):
        value("${env:PW}", **DECLARED, **only)


@pytest.mark.parametrize("kind", ["link", "folder link", "..", "absolute", "key"])
def test_nothing_leads_out_of_the_allowed_paths(tmp_path: Path, kind: str) -> None:
    """Kind: a check of a name, where the file behind it counts.

    Siblings: both providers; links of files and folders, ``..`` and ``/`` in paths and keys.
    """
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "s").write_text("k=secret\n")
    (inside / "s").write_text("k=open\n")
    (inside / "file").symlink_to(outside / "s")
    (inside / "folder").symlink_to(outside)
    texts = {
        "link": [f"${{f:{inside}/file:k}}", f"${{dir:{inside}:file}}"],
        "folder link": [f"${{f:{inside}/folder/s:k}}", f"${{dir:{inside}/folder:s}}"],
        "..": [f"${{f:{inside}/../out/s:k}}", f"${{dir:{inside}/../out:s}}"],
        "absolute": [f"${{f:{outside}/s:k}}", f"${{dir:{outside}:s}}"],
        "key": [
            f"${{dir:{inside}:{key}}}" for key in ("../out/s", f"{outside}/s", "..", "folder/s")
        ],
    }
    both = {f"config.providers.{name}.param.allowed.paths": f"{inside},/x" for name in ("f", "dir")}
    for text in texts[kind]:
        with pytest.raises(ConfigError, match=r"allowed\.paths|not the name of a file"):
            value(text, **DECLARED, **both)


@pytest.mark.parametrize("key", ["inner/s", "./s", "..", ".", ""])
def test_a_key_of_a_folder_is_the_name_of_a_file(tmp_path: Path, key: str) -> None:
    """Kind: a key is joined to a path. It is refused also where it may be read."""
    (tmp_path / "inner").mkdir()
    for place in (tmp_path, tmp_path / "inner"):
        (place / "s").write_text("k=v")
    with pytest.raises(ConfigError, match="not the name of a file"):
        value(f"${{dir:{tmp_path}:{key}}}", **DECLARED)


def test_links_below_the_allowed_paths(tmp_path: Path) -> None:
    """Kubernetes mounts a Secret so: each file is a link, over a link to a folder."""
    mount, home = tmp_path / "mount", tmp_path / "home"
    (mount / "..2026").mkdir(parents=True)
    (mount / "..2026" / "s").write_text("k=v")
    (mount / "..data").symlink_to("..2026")
    (mount / "s").symlink_to("..data/s")
    home.symlink_to(mount)
    for place in (mount, home):
        both = {f"config.providers.{name}.param.allowed.paths": str(place) for name in ("f", "dir")}
        assert value(f"${{f:{mount}/s:k}}", **DECLARED, **both) == "v"
        assert value(f"${{dir:{home}:s}}", **DECLARED, **both) == "k=v"


def test_providers_that_are_java_classes_of_others_are_refused() -> None:
    given = {"config.providers": "v", "config.providers.v.class": "com.example.Vault"}
    with pytest.raises(ConfigError, match=r"com\.example\.Vault"):
        value("${v:x}", **given)
