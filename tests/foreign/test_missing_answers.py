"""A missing answer never means "nothing there": where there is no ``__consumer_offsets`` too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgtool.protocol.api import consumer_group_describe, list_groups
from tests.support import clients
from tests.support.faulty import kgtool
from tests.support.kfake import Kfake

LIST = list_groups.Request.KEY
FAILURES = {
    "loading": {"code": 14},
    "denied": {"code": 29},
    "unknown-server-error": {"code": -1},
    "closed": {"close": True},
}


def test_where_every_broker_answers_nothing_is_missing(franz: Kfake) -> None:
    done = kgtool("list", "--bootstrap-server", franz.bootstrap, "-o", "json")
    assert (done.status, done.document["errors"]) == (0, []), done
    names = [row["group"] for row in done.document["results"]]
    assert sum(name.startswith("known-") for name in names) == 100


@pytest.mark.parametrize("failure", FAILURES)
def test_a_broker_that_does_not_list_is_an_error_that_names_it(franz: Kfake, failure: str) -> None:
    """One of three failing gave the groups of the other two, ``errors: []`` and status 0."""
    franz.fail(LIST, 1, **FAILURES[failure])
    done = kgtool("list", "--bootstrap-server", franz.bootstrap, "-o", "json", "--timeout", "5000")
    assert done.status == 3, done
    assert 0 < len(done.document["results"]) < 100
    assert [error["target"]["broker"] for error in done.document["errors"]] == [1], done
    assert franz.struck()


def test_three_loading_brokers_are_no_empty_cluster(franz: Kfake) -> None:
    franz.fail(LIST, code=14)
    done = kgtool("list", "--bootstrap-server", franz.bootstrap, "-o", "json", "--timeout", "5000")
    assert done.status == 1, done
    assert [error["code"] for error in done.document["errors"]] == [14] * 3, done
    assert franz.struck()


def test_a_permanent_refusal_is_told_at_once(franz: Kfake) -> None:
    franz.fail(LIST, 2, code=31)
    done = kgtool("list", "--bootstrap-server", franz.bootstrap, "-o", "json")
    (error,) = done.document["errors"]
    assert (done.status, error["name"]) == (3, "CLUSTER_AUTHORIZATION_FAILED"), done
    assert "ListGroups" in error["message"]
    assert franz.struck() == 1
    assert done.seconds < 5


@pytest.mark.parametrize("failure", ["loading", "denied"])
def test_a_backup_says_which_broker_it_lacks(franz: Kfake, tmp_path: Path, failure: str) -> None:
    """It held 74 groups of 100 and said "saved", with status 0."""
    franz.fail(LIST, 1, **FAILURES[failure])
    path = tmp_path / "saved.json"
    argv = ["backup", "--all-groups", "--bootstrap-server", franz.bootstrap, "--timeout", "5000"]
    done = kgtool(*argv, "--out", str(path), "-o", "json")
    assert done.status == 3, done
    assert [error["target"]["broker"] for error in done.document["errors"]] == [1], done
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert 0 < sum(line["kind"] == "group" for line in lines) < 100
    assert [line["broker"] for line in lines if line["kind"] == "error"] == [1]
    assert lines[-1]["errors"] == 1


def test_the_doctor_says_which_brokers_it_lacks(franz: Kfake) -> None:
    """It found "0 groups", with status 0."""
    franz.fail(LIST, code=14)
    done = kgtool(
        "doctor", "--bootstrap-server", franz.bootstrap, "-o", "json", "--timeout", "5000"
    )
    assert {error["target"]["broker"] for error in done.document["errors"]} >= {0, 1, 2}, done
    assert done.status == 3, done


def test_a_living_group_that_one_api_leaves_out_is_no_empty_group(franz: Kfake) -> None:
    """DescribeGroups is polite there: no rows, no error, status 0."""
    group = clients.unique("modern")
    member = clients.join(franz.bootstrap, group, ["payments"], group_protocol="consumer")
    try:
        franz.fail(consumer_group_describe.Request.KEY, empty=True)
        done = kgtool(
            "describe", "--group", group, "--bootstrap-server", franz.bootstrap, "-o", "json"
        )
        assert franz.struck()
    finally:
        member.close()
    (error,) = done.document["errors"]
    assert (done.status, error["name"]) == (1, "INCOMPLETE_ANSWER"), done
    assert "ConsumerGroupDescribe" in error["message"]


def test_nothing_is_saved_where_no_broker_lists(franz: Kfake, tmp_path: Path) -> None:
    franz.fail(LIST, code=31)
    path = tmp_path / "saved.json"
    argv = ["backup", "--all-groups", "--bootstrap-server", franz.bootstrap]
    done = kgtool(*argv, "--out", str(path), "-o", "json")
    assert done.status == 1, done
    assert not path.exists()
