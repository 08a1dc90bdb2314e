"""Which Java is taken, and what a user without one is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgtool.errors import SandboxError
from kgtool.sandbox.install.java import find_java


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


def test_java_home_wins_over_the_path(tmp_path):
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17")
    env = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(other.parent)}
    assert find_java(env) == home


def test_an_old_java_home_does_not_hide_a_good_one_on_the_path(tmp_path):
    fake_java(tmp_path / "a", "1.8.0_392")
    good = fake_java(tmp_path / "b", "24-ea")
    env = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(good.parent)}
    assert find_java(env) == good


def test_no_java_says_how_to_get_one(tmp_path):
    with pytest.raises(SandboxError) as caught:
        find_java({"PATH": str(tmp_path)})
    assert "Java 17 or newer" in caught.value.message
    assert "none is in JAVA_HOME or on the PATH" in caught.value.message
    assert "apt-get install openjdk-17-jre-headless" in (caught.value.hint or "")


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11")])
def test_an_old_java_is_named_with_its_version(tmp_path, version, shown):
    java = fake_java(tmp_path, version)
    with pytest.raises(SandboxError, match=f"{java}, which is {shown}"):
        find_java({"PATH": str(java.parent)})


def test_a_java_home_without_java_is_named(tmp_path):
    with pytest.raises(SandboxError, match="which does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.devnull})
