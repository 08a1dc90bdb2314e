"""Bearer tokens for OAUTHBEARER: made here, read from a file, or fetched from a token endpoint.

The client credentials grant is that of Kafka's ClientCredentialsJwtRetriever (KIP-768): a POST
with HTTP Basic authentication; the JWT bearer grant that of JwtBearerJwtRetriever (KIP-1139): a
POST of a signed assertion. The answer's ``access_token`` is used for most of its lifetime.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

from kgtool.config.logins import AwsLogin, ClientCredentials, JwtBearer, StaticToken, UnsecuredToken
from kgtool.errors import AuthenticationError, ConfigError
from kgtool.net.background import within

if TYPE_CHECKING:
    from kgtool.config.logins import OAuthLogin

HTTP_SECONDS = 10.0
"""The timeout of one try; all tries together have that of the command."""
PAUSES = (0.1, 0.5)
"""Before another try after a server error (``sasl.login.retry.backoff``)."""
FRESH_SHARE = 0.8
"""``sasl.login.refresh.window.factor``: the share of its lifetime for which a token is used."""
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MAX_ANSWER = 1024 * 1024
MAX_SECONDS = 1e12
"""The limit of times and lifetimes; NaN is not below it either."""


Endpoint: TypeAlias = ClientCredentials | JwtBearer


class _Token(NamedTuple):
    text: str
    fresh_until: float


class TokenSource:
    """The tokens of a session; may block while one is fetched."""

    def __init__(self, login: OAuthLogin, seconds: float = HTTP_SECONDS) -> None:
        self._source = login.source
        self._seconds = seconds
        self._token: _Token | None = None

    def get(self, host: str) -> str:
        """Return a token that is still valid.

        :raises AuthenticationError: none could be had.
        :raises ConfigError: the source can't be used.
        """
        source = self._source
        if isinstance(source, UnsecuredToken):
            from kgtool.protocol.sasl.oauthbearer import unsecured_token

            return unsecured_token(source.options, time.time())
        if isinstance(source, StaticToken):
            return source.token.reveal() if source.token else _from_file(source.file or "")
        if isinstance(source, AwsLogin):
            from kgtool.net.auth.aws import bearer_token

            return bearer_token(source, host)
        if self._token is None or time.time() >= self._token.fresh_until:
            fetch = partial(_fetch, source, time.monotonic() + self._seconds)
            self._token = within(self._seconds, fetch, _unreachable(TimeoutError(), source))
        return self._token.text


def _from_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up time
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"Can't read the token in {path} (sasl.oauthbearer.token.endpoint.url): {error}."
        ) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the secret is for this endpoint only."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _fetch(login: Endpoint, deadline: float) -> _Token:
    opener = urllib.request.build_opener(*_handlers(login))
    for pause in (*PAUSES, None):
        left = deadline - time.monotonic()
        is_last = pause is None or left <= pause
        try:
            seconds = max(0.1, min(HTTP_SECONDS, left))
            with opener.open(_request(login), timeout=seconds) as answer:
                return _read(answer.read(MAX_ANSWER), login)
        except urllib.error.HTTPError as error:
            with error:
                if error.code < 500 or is_last:
                    raise _refused(error, login) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            if is_last or _is_permanent(error):
                raise _unreachable(error, login) from None
        time.sleep(pause or 0)
    raise AssertionError


def _handlers(login: Endpoint) -> list[urllib.request.BaseHandler]:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if login.url.lower().startswith("https:"):
        from kgtool.config.security import tls_settings
        from kgtool.net.tls.stream import make_context

        context = make_context(tls_settings(login.tls, "sasl.jaas.config"), "sasl.jaas.config")
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return handlers


def _request(login: Endpoint) -> urllib.request.Request:
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if isinstance(login, JwtBearer):
        from kgtool.net.auth.assertions import assertion

        form = {"grant_type": JWT_BEARER, "assertion": assertion(login, time.time())}
    else:
        pair = (login.client_id, login.client_secret.reveal())
        if login.urlencode:
            pair = (quote_plus(pair[0]), quote_plus(pair[1]))
        form = {"grant_type": "client_credentials"}
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
    if login.scope:
        form["scope"] = login.scope
    parts = urlsplit(login.url)
    # A name and password before the host are not sent.
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return urllib.request.Request(url, urlencode(form).encode(), headers)


def _read(body: bytes, login: Endpoint) -> _Token:
    answer = _json(body)
    token = answer.get("access_token") or answer.get("id_token")
    if not isinstance(token, str) or not token:
        raise AuthenticationError(f"The token endpoint {_place(login)} answered without a token.")
    lifetime = _seconds(answer.get("expires_in"))
    if lifetime is None:
        lifetime = (_seconds(_claims(token).get("exp")) or 0) - time.time()
    return _Token(token, time.time() + max(0.0, lifetime) * FRESH_SHARE)


def _seconds(value: Any) -> float | None:
    """Return a finite number of seconds."""
    if not isinstance(value, (int, float)) or not abs(value) < MAX_SECONDS:
        return None
    return float(value)


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _place(login: Endpoint) -> str:
    """Return the URL of the endpoint without secrets: a password, or a key in its query."""
    parts = urlsplit(login.url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _refused(error: urllib.error.HTTPError, login: Endpoint) -> AuthenticationError:
    answer: dict[str, Any] = {}
    with contextlib.suppress(OSError, http.client.HTTPException):  # only its status is known
        answer = _json(error.read(MAX_ANSWER))
    details = " ".join(str(answer[key]) for key in ("error", "error_description") if key in answer)
    reason = f" ({details})" if details else ""
    checked = "Check client id, client secret and scope."
    if isinstance(login, JwtBearer):
        checked = "Check key, algorithm, claims (iss, sub, aud) and scope of the assertion."
    hint = checked if error.code < 500 else None
    return AuthenticationError(
        f"The token endpoint {_place(login)} gave no token: HTTP {error.code}{reason}.", hint=hint
    )


def _is_permanent(error: Exception) -> bool:
    """Whether another try can't help: a wrong certificate or address stays wrong."""
    reason = getattr(error, "reason", error)
    return isinstance(reason, (ssl.SSLError, ValueError, TimeoutError))


def _unreachable(error: Exception, login: Endpoint) -> AuthenticationError:
    reason = getattr(error, "reason", error)
    hint = None
    if isinstance(reason, ssl.SSLCertVerificationError):
        reason = f"its certificate is not trusted: {reason.verify_message}"
        hint = "Give ssl.truststore.location and so on as options of sasl.jaas.config."
    elif isinstance(reason, TimeoutError):
        reason = "no answer in time"
    elif isinstance(reason, OSError):
        reason = reason.strerror or str(reason)
    elif isinstance(reason, http.client.HTTPException):
        reason = "what answers there does not speak HTTP"
    return AuthenticationError(
        f"The token endpoint {_place(login)} can't be reached: {reason}.", hint=hint
    )
