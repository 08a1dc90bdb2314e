"""The pinned jars: what is accepted, what is refused, and what is left on the disk."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from kgtool.cli.commands import sandbox as command
from kgtool.errors import SandboxError, UsageError
from kgtool.sandbox.install import download, jars
from kgtool.sandbox.reporter import Reporter


@pytest.fixture
def real_jars(kafka) -> Path:
    """The verified 4.3.1 jars of this user's cache."""
    return kafka.jars[0].parent


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kgtool" / "kafka"


def copy_jars(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for jar in source.glob("*.jar"):
        os.link(jar, target / jar.name) if same_disk(jar, target) else shutil.copy(jar, target)


def same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


@pytest.mark.parametrize("version", jars.VERSIONS)
def test_every_version_has_a_complete_list(version):
    pins = jars.pins(version)
    assert all(re.fullmatch(r"[0-9a-f]{64}", pin.sha256) and pin.size > 0 for pin in pins)
    names = [pin.file_name for pin in pins]
    assert len(set(names)) == len(names)
    assert {f"kafka_2.13-{version}.jar", f"kafka-clients-{version}.jar"} <= set(names)


def test_the_commands_choices_are_the_pinned_versions():
    assert jars.VERSIONS == command.VERSIONS


def test_another_version_is_a_usage_error():
    with pytest.raises(UsageError, match="choose one of 4.4.0, 4.3.1, 3.9.1"):
        jars.kafka_jars("2.8.0")


def test_a_changed_jar_is_refused(real_jars, cache):
    libs = cache / "4.3.1" / "libs"
    copy_jars(real_jars, libs)
    victim = libs / "jopt-simple-5.0.4.jar"
    content = bytearray(victim.read_bytes())
    content[1000] ^= 1
    victim.unlink()  # never write through a hard link into the real cache
    victim.write_bytes(content)
    with pytest.raises(SandboxError) as caught:
        jars.kafka_jars("4.3.1")
    assert str(victim) in caught.value.message
    assert "SHA-256" in caught.value.message
    assert str(cache / "4.3.1") in (caught.value.hint or "")


def test_a_missing_jar_is_downloaded_again(real_jars, cache, monkeypatch):
    libs = cache / "4.3.1" / "libs"
    copy_jars(real_jars, libs)
    (libs / "re2j-1.8.jar").unlink()
    calls = []

    def fetch(version, wanted, work, reporter):
        calls.append(version)
        copy_jars(real_jars, work / "libs")

    monkeypatch.setattr(download, "download", fetch)
    found = jars.kafka_jars("4.3.1")
    assert calls == ["4.3.1"]
    assert all(path.is_file() for path in found)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == ["4.3.1"]


def test_a_bad_download_is_not_published(real_jars, cache, monkeypatch):
    def fetch(version, wanted, work, reporter):
        copy_jars(real_jars, work / "libs")
        jar = work / "libs" / "re2j-1.8.jar"
        jar.unlink()
        jar.write_bytes(b"<html>please log in</html>")

    monkeypatch.setattr(download, "download", fetch)
    with pytest.raises(SandboxError, match="re2j-1.8.jar is not the one"):
        jars.kafka_jars("4.3.1")
    assert not [path for path in cache.iterdir() if path.is_dir()]


def ivy_only(monkeypatch) -> None:
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "mvn" else which(name, **more)
    )


def test_no_network_is_one_sentence(cache, monkeypatch):
    """Real Ivy behind a proxy that isn't there."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    ivy_only(monkeypatch)
    with pytest.raises(SandboxError) as caught:
        jars.kafka_jars("4.3.1")
    assert "could not be downloaded" in caught.value.message
    assert "Ivy: " in caught.value.message
    assert "\n" not in caught.value.message
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_neither_ivy_nor_maven_says_what_to_install(cache, monkeypatch):
    monkeypatch.setattr(download, "find_ivy", lambda: None)
    ivy_only(monkeypatch)
    with pytest.raises(SandboxError, match="neither PySpark") as caught:
        jars.kafka_jars("4.3.1")
    assert "kafka-kgtool[analyze]" in (caught.value.hint or "")


def test_the_real_ivy_fetches_exactly_what_is_listed(tmp_path):
    """Needs Maven Central; three small jars, one of them with a classifier."""
    wanted = [p for p in jars.pins("4.3.1") if p.artifact in ("jopt-simple", "slf4j-simple")]
    wanted += [p for p in jars.pins("4.3.1-tests") if p.artifact == "kafka-server-common"]
    assert wanted[-1].file_name == "kafka-server-common-4.3.1-test.jar"
    seen = []

    class Recorder(Reporter):
        def download(self, total):
            from contextlib import nullcontext

            assert total == sum(pin.size for pin in wanted)
            return nullcontext(seen.append)

    download.download("4.3.1", wanted, tmp_path, Recorder())
    assert {p.name for p in (tmp_path / "libs").iterdir()} == {p.file_name for p in wanted}
    assert seen[-1] == sum(pin.size for pin in wanted)


@pytest.mark.parametrize(
    ("environ", "flags"),
    [
        ({}, []),
        (
            {"HTTPS_PROXY": "http://proxy.example:3128"},
            ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"],
        ),
        (
            {"https_proxy": "proxy.example:3128", "no_proxy": "localhost,.corp"},
            [
                "-Dhttps.proxyHost=proxy.example",
                "-Dhttps.proxyPort=3128",
                "-Dhttp.nonProxyHosts=localhost|*.corp",
            ],
        ),
    ],
)
def test_proxies_are_passed_on_to_java(environ, flags):
    assert download.proxy_flags(environ) == flags
