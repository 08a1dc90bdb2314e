"""Every error that kgtool raises on purpose, as one tree below ``KgError``.

``exit_code`` is the exit status of a command that fails with this error alone (the contract's
section 3). ``hint`` is the next thing a person can do. A failure of one item among many is not
raised: it is a value up to the renderer, and only the exit status is global.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class KgError(Exception):
    """An error that one sentence explains to a user."""

    exit_code = 1
    name = "ERROR"
    code: int | None = None
    maybe_done = False
    """Whether the request may have been carried out: it was sent, and no readable answer came."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    def after_sending(self) -> KgError:
        """Return the same error as the answer to a request that may have been carried out."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin.args = self.args
        twin.maybe_done = True
        return twin


def unexpected(error: Exception) -> KgError:
    """Return the error for an exception that is a bug."""
    return KgError(
        f"Unexpected {type(error).__name__}: {' '.join(str(error).split())}",
        hint="This is a bug in kgtool; --debug shows where.",
    )


class UsageError(KgError):
    """A wrong option, argument or combination; nothing was sent."""

    exit_code = 2
    name = "USAGE"


class ConfigError(KgError):
    """A configuration or input file that cannot be used; nothing was sent."""

    exit_code = 2
    name = "CONFIG"


def other_folder(error: OSError, variable: str) -> str:
    """Say what to do where a file can't be written."""
    choose = f"hoose another folder with {variable}."
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"Free some space, or c{choose}" if is_full else f"C{choose}"


@contextmanager
def readable(path: object) -> Iterator[None]:
    """Turn an OSError into a ConfigError that names the file."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}.") from error


class NetworkError(KgError):
    """The cluster, or one broker of it, could not be reached."""

    exit_code = 4
    name = "UNREACHABLE"


class ResolveFailed(NetworkError):
    """The host name has no address."""


class ResolvedTooLate(ResolveFailed):
    """No name server answered within the time that was allowed."""

    name = "TIMEOUT"


class ConnectFailed(NetworkError):
    """Nothing listens on that address."""


class WrongAddress(ConnectFailed):
    """Nothing answers where the only broker says that it is, while it answers elsewhere."""


class ConnectionLost(NetworkError):
    """The peer closed the connection, or it broke, before the answer was complete."""

    name = "CONNECTION_LOST"


class LoginLost(NetworkError):
    """The broker closed the connection after it had the credentials: some refuse a login so.

    Not a ConnectionLost: those are retried at once, and accounts may be locked after some tries.
    """

    name = "CONNECTION_LOST"


class NotKafka(NetworkError):
    """Something answers at that address, but it does not speak Kafka's protocol."""

    name = "NOT_KAFKA"


class TlsFailed(NetworkError):
    """The TLS handshake failed."""

    name = "TLS_FAILED"


class WrongCluster(NetworkError):
    """Another cluster answers than the one that the context is pinned to."""

    name = "WRONG_CLUSTER"


class TimedOut(NetworkError):
    """No answer came within the time that was allowed."""

    name = "TIMEOUT"


class OutcomeUnknown(NetworkError):
    """A change was sent and not answered, and whether it was made is unknown."""

    name = "OUTCOME_UNKNOWN"


class ChangedMeanwhile(KgError):
    """Another client changed the item since it was read; it is left alone."""

    name = "CHANGED_MEANWHILE"


class NotDone(KgError):
    """The item failed in the plan and would not fail now; the user has not agreed to it."""

    name = "NOT_DONE"

    def __init__(self) -> None:
        super().__init__(
            "It could not be done when it was first looked at, and could be now; it was not "
            "touched.",
            hint="Repeat the command.",
        )


class NotVerified(KgError):
    """The coordinator accepted a change, but another value is read back."""

    name = "NOT_VERIFIED"


class TopicRecreated(KgError):
    """The topic was deleted and created again: its offsets mean other records."""

    name = "TOPIC_RECREATED"


class AuthenticationError(KgError):
    """The cluster refused the login."""

    exit_code = 4
    name = "AUTHENTICATION_FAILED"


class ProtocolError(KgError):
    """Bytes that are not a Kafka message, in either direction."""

    name = "PROTOCOL"


class DecodeError(ProtocolError):
    """A message that arrived can't be decoded."""

    name = "DECODE"


class EncodeError(ProtocolError):
    """A message can't be encoded in the negotiated version."""

    name = "ENCODE"


class FrameError(ProtocolError):
    """A frame's length or correlation id is wrong: the rest of the stream is unusable."""

    name = "FRAME"


class IncompleteAnswer(ProtocolError):
    """An answer leaves out something that was asked for."""

    name = "INCOMPLETE_ANSWER"


class UnsupportedVersion(ProtocolError):
    """The broker and kgtool have no version of an API in common."""

    name = "UNSUPPORTED"


class BrokerError(KgError):
    """A broker answered with an error code; ``code`` and ``name`` are Kafka's own."""

    def __init__(
        self,
        code: int,
        name: str,
        message: str,
        *,
        retriable: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.name = name
        self.retriable = retriable


class MissingExtra(KgError):
    """The command needs packages that are not installed; the message names the extra."""

    name = "MISSING_EXTRA"


class SandboxError(KgError):
    """The local Kafka could not be started, seeded or stopped."""

    name = "SANDBOX"


class AnalysisError(KgError):
    """The Spark job can't go on."""

    name = "ANALYSIS"
