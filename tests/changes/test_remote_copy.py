"""A journal's copy: a user is fine in its URL, a password is not; what is missing has a name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.changes.journal.remote_copy import RemoteCopy, check_url, fetch
from kgtool.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    "url", ["s3://bucket/journals", "hdfs://me@host/x", "hdfs://me@host:8020/x", "s3://b/a:b@c"]
)
def test_urls(url: str) -> None:
    assert check_url(f"{url}/") == url


@pytest.mark.parametrize("url", ["sftp://me:pw@host/x", "sftp://me:p@w@host", "sftp://:pw@host/x"])
def test_a_password_would_be_kept_in_the_journal(url: str) -> None:
    with pytest.raises(UsageError, match="has a password in it"):
        check_url(url)


@pytest.mark.parametrize("url", ["/tmp/x", "s3://", "://x", ""])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UsageError, match="takes a URL such as"):
        check_url(url)


@pytest.mark.parametrize("use", [RemoteCopy, lambda url: fetch(url, Path())])
def test_without_fsspec_it_says_what_is_missing(
    use: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match="needs the package fsspec"):
        use("memory://journals/one")


def test_of_many_journals_none_is_taken(tmp_path: Path) -> None:
    for name in ("1", "4", "2", "3"):
        RemoteCopy(f"file://{tmp_path}/{name}").put(b"{}\n")
    with pytest.raises(ConfigError, match="There is no journal at") as refused:
        fetch(f"file://{tmp_path}", tmp_path)
    assert refused.value.hint == "It takes URL/ID; the newest there: 4, 3, 2."
