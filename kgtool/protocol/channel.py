"""The protocol state of one connection, sans IO: requests in, bytes out; bytes in, replies out.

::

    NEW ──start()──▶ [LOGIN ──accepted──▶] VERSIONS ──ApiVersions answered──▶ READY
      any state ──receive(b"") or fail()──▶ CLOSED

LOGIN only with a SASL mechanism (see ``login``). ApiVersions answered with UNSUPPORTED_VERSION
(35) is sent again in the highest version that the broker names, strictly below ours, so that no
peer can make it loop. Version 5 is asked only where it is known to be spoken and where the cluster
and the node are known, which it then checks (KIP-1242): to any other 3.9 to 4.3 it would cost a
round trip. Requests sent before READY wait. A broker answers one connection's requests
in order, so replies are matched by position and the correlation id is only verified: a wrong one
means that nothing after it can be trusted, and closes the channel.

Every token given to ``send`` comes back from ``replies`` exactly once, with a response or with a
``KgError``. The driver's loop is: write ``data_to_send``, feed ``receive``, hand out ``replies``.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.errors import (
    ConnectFailed,
    ConnectionLost,
    DecodeError,
    EncodeError,
    FrameError,
    KgError,
    NotKafka,
    UnsupportedVersion,
)
from kgtool.protocol.api import api_versions
from kgtool.protocol.codes import REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION, broker_error
from kgtool.protocol.frame import FrameBuffer, correlation_of, encode_request, skip_response_header
from kgtool.protocol.plan import decode_prefix
from kgtool.protocol.schema import Struct

if TYPE_CHECKING:
    from kgtool.protocol.login import Login
    from kgtool.protocol.sasl import Mechanism

METADATA, VOTE = 3, 52
NEW, LOGIN, VERSIONS, READY, CLOSED = "NEW", "LOGIN", "VERSIONS", "READY", "CLOSED"

# The first correlation id ends in CR LF: a web server that waits for the end of a request line
# then answers at once, with an error that is recognised.
FIRST_CORRELATION_ID = 0x0D0A

WITHOUT_IDENTITY = 4
"""The last version of ApiVersions that does not say which broker is meant."""

TRACE_WIDTH = 300
"""Characters of a message's content that are shown by ``--debug``."""

_SECRET_APIS = {36}
"""SaslAuthenticate: passwords, tokens and proofs are never traced."""


class ProtocolWarning(UserWarning):
    """A harmless deviation from the protocol."""


class Expected(NamedTuple):
    """Which broker a connection means to reach (KIP-1242)."""

    cluster_id: str
    node_id: int


class _InFlight(NamedTuple):
    token: Any
    request: Struct
    version: int
    correlation_id: int


class Channel:
    """The protocol state of one connection to one broker.

    :param peer: ``host:port`` for messages.
    :param client_id: sent in each header, for the broker's request log and quotas.
    :param expected: the broker refuses the connection if it is another (4.4).
    """

    def __init__(
        self,
        peer: str,
        client_id: str,
        software_version: str = "0",
        expected: Expected | None = None,
    ) -> None:
        self.peer = peer
        self.state = NEW
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.throttle_ms = 0
        self.throttled_request = ""
        """The last request that a quota delayed."""
        self.answered = 0
        """The number of callers' requests that got a reply."""
        self.trace: Callable[[str], None] | None = None
        """Gets a line for each message, without secrets."""
        self._login: Login | None = None
        self._client_id = client_id
        self._software_version = software_version
        self._expected = expected
        self._buffer = FrameBuffer(peer)
        self._out = bytearray()
        self._in_flight: deque[_InFlight] = deque()
        self._waiting: list[tuple[Any, Struct, int | None]] = []
        self._replies: list[tuple[Any, Any]] = []
        self._next_id = FIRST_CORRELATION_ID
        self.error: KgError | None = None
        """Why the channel is closed."""

    @property
    def pending(self) -> int:
        """The number of requests without a reply."""
        return len(self._in_flight) + len(self._waiting)

    def unanswered(self) -> Iterator[Any]:
        """Return the tokens of callers' requests without a reply."""
        yield from (sent.token for sent in self._in_flight if sent.token is not None)
        yield from (token for token, _, _ in self._waiting)

    @property
    def session_lifetime_ms(self) -> int:
        """The lifetime of the login (KIP-368); 0: that of the connection."""
        return self._login.lifetime_ms if self._login else 0

    def start(self, mechanism: Mechanism | None = None) -> None:
        """Log in, if there is a mechanism, and ask for the broker's versions."""
        if mechanism is None:
            self._begin_versions()
        else:
            self._begin_login(mechanism)

    def renew_login(self, mechanism: Mechanism) -> None:
        """Renew a login before it expires (KIP-368); new requests wait meanwhile."""
        if self.state == READY:
            self._begin_login(mechanism)

    def _begin_login(self, mechanism: Mechanism) -> None:
        from kgtool.protocol.login import Login

        is_first = self._login is None
        self._login = Login(self.peer, mechanism, self.versions)
        self.state = LOGIN
        self._write(None, *(self._login.begin() if is_first else self._login.begin_renewal()))

    def _begin_versions(self) -> None:
        self.state = VERSIONS
        highest = api_versions.Request.VERSIONS.high
        self._ask_versions(highest if self._expected else WITHOUT_IDENTITY)

    def send(self, token: Any, request: Struct, max_version: int | None = None) -> None:
        """Queue a request; its reply will come back with ``token``."""
        if self.state == CLOSED:
            self._replies.append((token, self.error))
        elif self.state == READY:
            self._send_now(token, request, max_version)
        else:
            self._waiting.append((token, request, max_version))

    def data_to_send(self) -> bytes:
        """Return the bytes to write, once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; ``b""``: it closed the connection."""
        if self.state == CLOSED:
            return
        if not data:
            self.fail(self.closed_error())
            return
        self._buffer.feed(data)
        try:
            while (frame := self._buffer.next_frame()) is not None:
                self._on_frame(frame)
        except KgError as error:
            self.fail(error)

    def fail(self, error: KgError) -> None:
        """Close the channel: every request without a reply gets ``error``.

        Those in flight get it with ``maybe_done``: the broker may have executed them.
        """
        if self.state == CLOSED:
            return
        self.state = CLOSED
        self.error = error
        for flight in self._in_flight:
            if flight.token is not None:
                self._replies.append((flight.token, error.after_sending()))
        for token, _, _ in self._waiting:
            self._replies.append((token, error))
        self._in_flight.clear()
        self._waiting.clear()

    def replies(self) -> list[tuple[Any, Any]]:
        """Return the replies that are ready, once, as (token, response or error)."""
        ready = self._replies
        self._replies = []
        return ready

    def pick_version(self, request: Struct, max_version: int | None = None) -> int:
        """Return the highest version that both sides speak.

        :raises UnsupportedVersion: there is none.
        """
        offered = self.versions.get(request.KEY)
        low, high = request.VERSIONS
        if max_version is not None:
            high = min(high, max_version)
        if offered is None:
            from kgtool.protocol.capabilities import not_offered

            raise not_offered(self.peer, request.NAME)
        if max(low, offered[0]) > min(high, offered[1]):
            raise UnsupportedVersion(
                f"{self.peer} speaks {request.NAME} {offered[0]}–{offered[1]}, "
                f"and this request needs {low}–{high}."
            )
        return min(high, offered[1])

    def _send_now(self, token: Any, request: Struct, max_version: int | None) -> None:
        try:
            version = self.pick_version(request, max_version)
            self._write(token, request, version)
        except (UnsupportedVersion, EncodeError) as error:
            self._replies.append((token, error))

    def _write(self, token: Any, request: Struct, version: int) -> None:
        correlation_id = self._next_id
        frame = encode_request(request, version, correlation_id, self._client_id)
        self._out += frame
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        flight = _InFlight(token, request, version, correlation_id)
        self._in_flight.append(flight)
        if self.trace is not None:
            self._trace_message("→", flight, request, len(frame) - 4)

    def _trace_message(self, arrow: str, flight: _InFlight, message: Struct, size: int) -> None:
        """Trace a request (``→``) or reply (``←``); ``size`` is that of its frame, in bytes."""
        assert self.trace is not None
        request = flight.request
        content = "[hidden]" if request.KEY in _SECRET_APIS else repr(message)
        if len(content) > TRACE_WIDTH:
            content = f"{content[:TRACE_WIDTH]}…"
        self.trace(
            f"{arrow} {self.peer} #{flight.correlation_id} {request.NAME} v{flight.version}, "
            f"{size} bytes: {content}"
        )

    def _ask_versions(self, version: int) -> None:
        said: dict[str, Any] = {}
        if version >= 3:
            said.update(
                client_software_name="kgtool", client_software_version=self._software_version
            )
        if version > WITHOUT_IDENTITY and self._expected is not None:
            said.update(self._expected._asdict())
        self._write(None, api_versions.Request(**said), version)

    def _on_frame(self, frame: bytes) -> None:
        if not self._in_flight:
            raise FrameError(f"{self.peer} sent a reply that was not asked for.")
        flight = self._in_flight.popleft()
        if correlation_of(frame) != flight.correlation_id:
            self._in_flight.appendleft(flight)
            raise FrameError(
                f"{self.peer} answered request {correlation_of(frame)} "
                f"instead of {flight.correlation_id}: the connection is broken."
            )
        if flight.token is None:
            if self.state == LOGIN:
                self._on_login(frame, flight)
            else:
                self._on_versions(frame, flight.version)
            return
        self.answered += 1
        try:
            reply = self._decode(frame, flight)
        except DecodeError as error:
            self._replies.append((flight.token, error.after_sending()))
            return
        self._replies.append((flight.token, reply))

    def _decode(self, frame: bytes, flight: _InFlight) -> Struct:
        request, version = flight.request, flight.version
        start = skip_response_header(frame, request.KEY, version in request.FLEXIBLE)
        reply, end = decode_prefix(request.REPLY, version, frame, start)
        if end != len(frame):
            problem = (
                f"{self.peer}: {len(frame) - end} bytes left over after "
                f"{request.NAME}Response v{version}"
            )
            if request.KEY != METADATA:
                raise DecodeError(f"{problem}.")
            # Some brokers do that; librdkafka and the Java client ignore it.
            warnings.warn(f"{problem}; the rest of it is used.", ProtocolWarning, stacklevel=2)
        self.throttle_ms = getattr(reply, "throttle_time_ms", 0)
        if self.throttle_ms:
            self.throttled_request = request.NAME
        if self.trace is not None:
            self._trace_message("←", flight, reply, len(frame))
        return reply  # type: ignore[no-any-return]

    def _on_login(self, frame: bytes, flight: _InFlight) -> None:
        assert self._login is not None
        if flight.request.KEY == api_versions.Request.KEY:
            reply = self._decode_versions(frame, flight.version)
        else:
            reply = self._decode(frame, flight)
        following = self._login.next_request(reply)
        if following is not None:
            self._write(None, *following)
        elif self.versions:
            self._be_ready()
        else:
            self._begin_versions()

    def _decode_versions(self, frame: bytes, version: int) -> Any:
        try:
            return decode_prefix(api_versions.Response, version, frame, 4)[0]
        except DecodeError as error:
            raise NotKafka(
                f"{self.peer} answers, but not as a Kafka broker does ({error}).",
                hint="Check host and port of --bootstrap-server.",
            ) from error

    def _on_versions(self, frame: bytes, version: int) -> None:
        if frame[4:6] == UNSUPPORTED_VERSION.to_bytes(2, "big"):
            self._retry_versions(frame, version)
            return
        reply = self._decode_versions(frame, version)
        if reply.error_code == REBOOTSTRAP_REQUIRED and self._expected is not None:
            cluster_id, node_id = self._expected
            raise ConnectFailed(
                f"{self.peer} is not broker {node_id} of the cluster {cluster_id}: "
                "another broker has this address now."
            )
        if reply.error_code:
            raise broker_error(reply.error_code)
        self.throttle_ms = getattr(reply, "throttle_time_ms", 0)
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in reply.api_keys}
        self.features = {
            row.name: row.max_version_level for row in getattr(reply, "finalized_features", ())
        }
        if METADATA not in self.versions and VOTE in self.versions:
            raise NotKafka(
                f"{self.peer} is a KRaft controller, and kgtool talks to brokers.",
                hint="Give a broker's address with --bootstrap-server: clients can't use the "
                "listener of the controllers.",
            )
        self._be_ready()

    def _be_ready(self) -> None:
        self.state = READY
        waiting, self._waiting = self._waiting, []
        for token, request, max_version in waiting:
            self._send_now(token, request, max_version)

    def _retry_versions(self, frame: bytes, version: int) -> None:
        """Retry in the broker's highest version; 2.1 to 2.3 answer an empty list: version 0."""
        if version == 0:
            raise UnsupportedVersion(f"{self.peer} refuses ApiVersions 0: it is no broker.")
        try:
            reply, _ = decode_prefix(api_versions.Response, 0, frame, 4)
        except DecodeError:
            reply = api_versions.Response()
        offered = {row.api_key: row.max_version for row in reply.api_keys}
        highest = offered.get(api_versions.Request.KEY, 0)
        self._ask_versions(max(0, min(highest, version - 1)))

    def closed_error(self) -> KgError:
        """Return the error of a connection that the peer closes now."""
        if self.state == VERSIONS and self._login is None:
            return ConnectionLost(
                f"{self.peer} closed the connection at once.",
                hint="Is it a TLS or SASL listener, or no Kafka broker at all?",
            )
        return self.explain_loss(ConnectionLost(f"{self.peer} closed the connection."))

    def explain_loss(self, error: KgError) -> KgError:
        """Return the error of a connection that breaks now, perhaps in the middle of a login."""
        if self._login is None or self.state not in (LOGIN, VERSIONS):
            return error
        return self._login.explain_loss(error)
