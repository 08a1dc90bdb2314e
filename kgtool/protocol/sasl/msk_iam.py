"""AWS_MSK_IAM: a request for ``kafka-cluster:Connect``, signed with AWS Signature Version 4.

The payload is that of Amazon's aws-msk-iam-auth (version 2020_10_22): the query parameters of a
presigned GET of the broker's host, as a JSON object.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from datetime import datetime, timezone
from typing import NamedTuple

from kgtool.errors import AuthenticationError

VERSION = "2020_10_22"
SERVICE = "kafka-cluster"
ACTION = "kafka-cluster:Connect"
ALGORITHM = "AWS4-HMAC-SHA256"
EXPIRES_SECONDS = 900

_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")


class AwsCredentials(NamedTuple):
    """A key pair, with a session token if they are temporary."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key!r}, [hidden])"


class MskIam:
    """One login.

    :param host: the broker's host, which is signed too.
    :param now: seconds since the epoch.
    """

    name = "AWS_MSK_IAM"

    def __init__(
        self, host: str, credentials: AwsCredentials, region: str, now: float, user_agent: str
    ) -> None:
        self.is_done = False
        self._payload = signed_payload(host, credentials, region, now, user_agent)

    def start(self) -> bytes:
        """Return the signed payload."""
        return json.dumps(self._payload, separators=(",", ":")).encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Take the broker's answer, an object with its version and a request id."""
        try:
            answer = json.loads(challenge)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or answer.get("version") != VERSION:
            raise AuthenticationError("The broker's AWS_MSK_IAM answer can't be read.")
        self.is_done = True
        return None


def region_of(host: str) -> str | None:
    """Return the region that a broker's host name tells, as Amazon names its brokers.

    >>> region_of("b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com")
    'eu-west-1'
    """
    match = _HOST.search(host)
    return match[1] if match else None


def signed_payload(
    host: str, credentials: AwsCredentials, region: str, now: float, user_agent: str
) -> dict[str, str]:
    """Return the payload: what was signed, and its signature."""
    moment = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{SERVICE}/aws4_request"
    query = {
        "Action": ACTION,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(EXPIRES_SECONDS),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    signature = _signature(host, query, moment, scope, credentials.secret_key, region)
    signed = {key.lower(): value for key, value in query.items() if key != "Action"}
    return {
        "version": VERSION,
        "host": host,
        "user-agent": user_agent,
        "action": ACTION,
        **signed,
        "x-amz-signature": signature,
    }


def _signature(
    host: str, query: dict[str, str], moment: str, scope: str, secret: str, region: str
) -> str:
    pairs = "&".join(f"{_quoted(key)}={_quoted(query[key])}" for key in sorted(query))
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{pairs}\nhost:{host}\n\nhost\n{empty}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (moment[:8], region, SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"{ALGORITHM}\n{moment}\n{scope}\n{digest}".encode(), "sha256").hex()


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


def _quoted(text: str) -> str:
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode())
