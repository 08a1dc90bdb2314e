"""Every script's class is really in the jars of the version."""

from __future__ import annotations

import zipfile

import pytest

from kgtool.sandbox.cluster import new_cluster_id
from kgtool.sandbox.install.jars import VERSIONS, kafka_jars
from kgtool.sandbox.tools import TOOLS, tool_class

NEW_IN_4 = {
    "kafka-console-share-consumer",
    "kafka-groups",
    "kafka-share-groups",
    "kafka-streams-groups",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_tool_has_its_class(version):
    names: set[str] = set()
    for jar in kafka_jars(version):
        if "kafka" in jar.name:
            with zipfile.ZipFile(jar) as opened:
                names.update(opened.namelist())
    there = TOOLS.keys() - (NEW_IN_4 if version.startswith("3.") else set())
    classes = {tool: tool_class(tool, version) for tool in there}
    missing = {t: c for t, c in classes.items() if c.replace(".", "/") + ".class" not in names}
    assert missing == {}


def test_a_class_name_stays_what_it_is():
    assert tool_class("com.example.Tool", "4.3.1") == "com.example.Tool"


def test_a_cluster_id_is_never_taken_for_an_option():
    ids = {new_cluster_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert {len(text) for text in ids} == {22}
    assert not [text for text in ids if text.startswith("-")]
