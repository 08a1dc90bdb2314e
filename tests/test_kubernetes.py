"""The manifests of docs/kubernetes: their commands run on a real broker, with what they mount."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import clients

FOLDER = Path(__file__).parents[1] / "docs/kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    spec = document["spec"]
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return spec["template"]["spec"]


class Node:
    """What stands for a cluster: each volume is a folder, filled as connection.yaml says."""

    def __init__(self, bootstrap: str, root: Path) -> None:
        self.root = root
        config, secret, claim = documents("connection.yaml")
        assert [one["kind"] for one in (config, secret, claim)] == [
            "ConfigMap",
            "Secret",
            "PersistentVolumeClaim",
        ]
        self.sources = {
            config["metadata"]["name"],
            secret["metadata"]["name"],
            claim["metadata"]["name"],
        }
        for folder in ("config", "secret", "journal"):
            (root / folder).mkdir()
        for key, value in {**config["data"]}.items():
            (root / "config" / key).write_text(value)
        for key, value in secret["stringData"].items():
            (root / "secret" / key).write_text(value)
        # This broker knows no logins.
        text = (root / "config/client.properties").read_text().splitlines()
        assert any("${file:/secret/login.properties:password}" in line for line in text)
        (root / "config/client.properties").write_text(f"bootstrap.servers={bootstrap}\n")

    def words(self, pod: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        (container,) = pod["containers"]
        places = {mount["mountPath"] for mount in container["volumeMounts"]}
        named = {
            source.get("name") or source.get("secretName") or source.get("claimName")
            for volume in pod["volumes"]
            for source in volume.values()
            if isinstance(source, dict)
        }
        assert named <= self.sources

        def here(word: str) -> str:
            if word.startswith("s3://"):
                return (self.root / "bucket").as_uri()
            first = f"/{word.split('/')[1]}" if word.startswith("/") else ""
            return f"{self.root}{word}" if first in places else word

        env = {one["name"]: here(one["value"]) for one in container["env"]}
        return [here(word) for word in container["args"]], env

    def start(self, name: str, *more: str, **env: str) -> subprocess.Popen[str]:
        (document,) = documents(name)
        words, own = self.words(pod_of(document))
        return subprocess.Popen(
            [sys.executable, "-m", "kgtool", *words, *more],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "KGTOOL_JOURNAL_DIR": str(self.root / "journal"), **own, **env},
        )

    def run(self, name: str, *more: str, **env: str) -> tuple[int, str, str]:
        with self.start(name, *more, **env) as process:
            out, err = process.communicate(timeout=90)
        return process.returncode, out, err


@pytest.fixture
def node(bootstrap: str, tmp_path: Path) -> Node:
    return Node(bootstrap, tmp_path)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_a_pod_mounts_what_it_needs_and_may_do_no_more(path: Path) -> None:
    """Was: each pod mounted the journal's volume, and two nodes can't; none gave up a right."""
    for document in documents(path.name):
        if path.name == "connection.yaml":
            assert document["kind"] in ("ConfigMap", "Secret", "PersistentVolumeClaim")
            continue
        pod = pod_of(document)
        (container,) = pod["containers"]
        # One node at a time mounts the journal's volume (ReadWriteOnce): only Jobs that need it.
        is_job = {"plan", "apply"} & set(container["args"])
        places = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert places == {"/config", "/secret", *(["/journal"] if is_job else [])}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["securityContext"]["runAsNonRoot"] is True


def test_every_file_is_named_in_the_guide() -> None:
    guide = FOLDER.with_suffix(".rst").read_text()
    assert all(f"``{path.name}``" in guide for path in FOLDER.iterdir())


def test_plan_and_apply(node: Node, bootstrap: str, new_topic: Any) -> None:
    """A plan of groups that are idle for 30 days: none, and status 0. Then one that names one."""
    topic, group = new_topic("pods"), clients.unique("pod")
    clients.produce(bootstrap, topic, 1)
    clients.commit(bootstrap, group, {(topic, 0): 1})
    status, _, said = node.run("plan.yaml", "--match", group)
    assert status == 0, said
    # The last --idle counts: nothing on this broker is 30 days old.
    time.sleep(1.1)
    status, _, said = node.run("plan.yaml", "--group", group, "--idle", "1s")
    assert status == 0 and (node.root / "journal/plan.json").exists(), said
    (node.root / "config/policy.toml").write_text("reason = true\nmax_groups = 200\n")
    status, out, said = node.run("apply.yaml")
    assert status == 0, said + out
    assert group not in clients.group_ids(bootstrap)
    assert list((node.root / "bucket").iterdir())


def test_cron_jobs(node: Node, bootstrap: str) -> None:
    status, _, said = node.run("doctor.yaml", "--match", "no-such-*")
    assert status == 0 and "Traceback" not in said, (status, said)
    group = clients.unique("cron")
    topic = clients.create_topic(bootstrap, clients.unique("cron"), 1)
    clients.commit(bootstrap, group, {(topic, 0): 0})
    status, out, said = node.run("expiring.yaml", "--group", group)
    assert status == 0, said
    status, out, _ = node.run("expiring.yaml", "--group", group, "--expiring-within", "8d")
    assert status == 5 and group in out
    status, _, said = node.run("retention.yaml")
    assert status == 0 and "Nothing is due." in said, said


def test_the_exporter(node: Node) -> None:
    process = node.start("exporter.yaml", "--listen", "127.0.0.1:0")
    try:
        assert process.stderr is not None
        assert "Listening on http://127.0.0.1" in process.stderr.readline()
        time.sleep(0.1)
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=20)
