"""URLs of a journal's copy: a user is fine there, a password is not."""

from __future__ import annotations

import pytest

from kgtool.changes.journal.remote_copy import check_url
from kgtool.errors import UsageError


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
