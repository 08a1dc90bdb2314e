"""A proxy that damages what a broker says, for one client and in a way that can be repeated.

Each broker has a listener whose advertised address is a proxy's. A client is known by the client
id in its requests; without a plan for it everything passes through. What is damaged, and when, is
drawn from a seeded generator, so that a run that went wrong can be run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple, TypeVar

T = TypeVar("T")

DRIP_SECONDS = 0.03
MAX_FRAME = 2**27
KINDS = (
    "drip",  # a byte now and then
    "cut",  # the connection ends in the middle of a frame
    "reset",  # it is reset in the middle of a frame
    "hole",  # nothing comes back any more; the connection stays
    "swallow",  # the request never gets to the broker; the connection stays
    "lost-answer",  # the broker has done it; the connection ends without the answer
    "wrong-id",  # the answer to another request
    "giant",  # a frame of two gigabytes is announced
    "negative",  # a frame of a negative length is announced
    "garbage",  # the right length, and nothing readable in it
    "noise",  # bytes between two frames
    "twice",  # the same bytes again
    "late",  # the answer comes, but after a second
    "refuse",  # the connection is reset as soon as it is made
)
REQUEST_KINDS = (
    "stall",  # the connection ends at once, the request gets to the broker ``seconds`` later
    "rewrite",  # the answer is what ``rewrite`` makes of it
    "watch",  # nothing but the hook
)
"""What only a fault with ``api`` can do, besides "swallow" and all that spoils an answer."""


class Fault(NamedTuple):
    """One way to damage a conversation.

    :param at: after so many good answers on the connection (0: the answer to ApiVersions); with
        ``api``, after so many requests of that API by this client to this broker, however many
        connections they come on.
    :param times: on how many connections (with ``api``: requests); from then on the broker is well
        again.
    :param api: the API key whose requests count and are struck.
    :param hook: runs, in a thread of its own, at that moment: when the broker has answered and
        before the client hears of it (``swallow``, ``stall``: before the broker hears of it).
    :param rewrite: makes another answer of one; frames begin with their four bytes of length.
    :param seconds: how late a stalled request gets to the broker.
    """

    kind: str
    broker: int
    at: int = 0
    times: int = 1
    seed: int = 0
    api: int | None = None
    hook: Callable[[], object] | None = None
    rewrite: Callable[[bytes], bytes] | None = None
    seconds: float = 1.0


class Plan:
    """What happens to one client."""

    def __init__(self, *faults: Fault) -> None:
        self.left = {fault: fault.times for fault in faults}
        self.hook_failed: Exception | None = None
        self._struck = 0
        self._asked: Counter[tuple[int, int]] = Counter()

    @property
    def struck(self) -> int:
        """How many faults have struck.

        :raises Exception: what a hook or a rewrite has raised: the fault was another one than was
            meant.
        """
        if self.hook_failed is not None:
            raise self.hook_failed
        return self._struck

    def fault_for(self, broker: int) -> Fault | None:
        return next(
            (
                f
                for f, left in self.left.items()
                if f.broker == broker and left > 0 and f.api is None
            ),
            None,
        )

    def fault_of_request(self, broker: int, api: int) -> Fault | None:
        """Count a request; return the fault that strikes it, if one does."""
        count = self._asked[broker, api]
        self._asked[broker, api] += 1
        for fault in self.left:
            if (fault.broker, fault.api) == (broker, api) and fault.at <= count:
                return fault if self.strike(fault) else None
        return None

    def strike(self, fault: Fault) -> bool:
        """Use a fault up by one; False if other connections were faster."""
        if self.left[fault] <= 0:
            return False
        self.left[fault] -= 1
        self._struck += 1
        return True


class _Ended(Exception):
    """The fault has ended the conversation."""


class Proxies:
    """Proxies in front of brokers, in a thread of their own: ``{broker id: (listen, target)}``."""

    def __init__(self, ports: dict[int, tuple[int, int]]) -> None:
        self.plans: dict[str, Plan] = {}
        self.requests: dict[str, Counter[int]] = {}
        """How many requests of each API key came from each client id."""
        self.trace: dict[str, list[tuple[float, int, int]]] = {}
        """The same, one by one: when (monotonic), to which broker, which API key."""
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._writers: dict[str, list[asyncio.StreamWriter]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._wait(self._listen())
        return self

    def __exit__(self, *_error: object) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{listen}" for listen, _ in self._ports.values())

    def hang_up(self, client: str) -> None:
        """End all connections of a client, without a word."""
        self._wait(self._hang_up(client))

    def deliver_later(self, frame: bytes, target: int, seconds: float) -> None:
        """Give a request to the broker after some time, and let its answer go."""
        task = self._loop.create_task(_deliver(frame, target, seconds))
        for tasks in (self._tasks, self._late):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def wait_for_late(self) -> None:
        """Wait until brokers have answered every request that was held back so far."""
        self._wait(self._delivered())

    async def _delivered(self) -> None:
        await asyncio.gather(*self._late, return_exceptions=True)

    async def _hang_up(self, client: str) -> None:
        for writer in self._writers.pop(client, []):
            writer.close()

    def _wait(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        self._servers = [
            await asyncio.start_server(self._server(broker, target), "127.0.0.1", listen)
            for broker, (listen, target) in self._ports.items()
        ]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _server(self, broker: int, target: int) -> Callable[..., None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(_Conversation(self, broker).run(reader, writer, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accept


class _Conversation:
    """One connection of a client, and the one behind it to the broker."""

    def __init__(self, proxies: Proxies, broker: int) -> None:
        self._proxies = proxies
        self._broker = broker
        self._plan: Plan | None = None
        self._fault: Fault | None = None
        self._answers = 0
        self._requests = 0
        self._is_dripping = False
        self._is_silent = False
        self._due: dict[int, Fault] = {}
        """The faults that wait for the answer to a request, by its correlation id."""

    async def run(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int
    ) -> None:
        broker_writer = None
        try:
            first = await _frame(reader)
            if first is None:
                return
            self._meet(first)
            self._proxies._writers.setdefault(self._client, []).append(writer)
            if self._is_due("refuse", 0):
                _reset(writer)
                return
            self._target = target
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", target)
            up = asyncio.ensure_future(self._up(first, reader, broker_writer))
            down = asyncio.ensure_future(self._down(broker_reader, writer))
            await _first_of(up, down)
        except (OSError, _Ended):
            pass
        finally:
            for end in (writer, broker_writer):
                if end is not None:
                    end.close()

    def _meet(self, frame: bytes) -> None:
        (length,) = struct.unpack_from(">h", frame, 12)
        client = frame[14 : 14 + length].decode()
        self._client = client
        self._plan = self._proxies.plans.get(client)
        self._fault = self._plan.fault_for(self._broker) if self._plan else None

    def _is_due(self, kind: str, count: int) -> bool:
        fault = self._fault
        if fault is None or fault.kind != kind or (kind != "refuse" and count < fault.at):
            return False
        assert self._plan is not None
        due = self._plan.strike(fault)
        self._fault = None
        return due

    async def _up(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        frame: bytes | None = first
        while frame is not None:
            (key,) = struct.unpack_from(">h", frame, 4)
            self._proxies.requests.setdefault(self._client, Counter())[key] += 1
            came = (time.monotonic(), self._broker, key)
            self._proxies.trace.setdefault(self._client, []).append(came)
            fault = self._plan.fault_of_request(self._broker, key) if self._plan else None
            if fault is not None and fault.kind in ("swallow", "stall"):
                await self._call(fault)
                if fault.kind == "stall":
                    # The broker may have it before the connection behind this one ends.
                    self._proxies.deliver_later(frame, self._target, fault.seconds)
                    raise _Ended
                self._is_silent = True
            elif fault is not None:
                (correlation,) = struct.unpack_from(">i", frame, 8)
                self._due[correlation] = fault
            if self._is_silent or self._is_due("swallow", self._requests):
                self._is_silent = True
            else:
                writer.write(frame)
                await writer.drain()
            self._requests += 1
            frame = await _frame(reader)

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await _frame(reader)) is not None:
            if self._is_silent:
                continue
            async for piece in self._damaged(frame, writer):
                writer.write(piece)
                await writer.drain()
            self._answers += 1

    async def _damaged(self, frame: bytes, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
        (correlation,) = struct.unpack_from(">i", frame, 4)
        asked = self._due.pop(correlation, None)
        if asked is not None:
            await self._call(asked)
            if asked.kind == "rewrite":
                assert asked.rewrite is not None
                yield await self._run(partial(asked.rewrite, frame))
            elif asked.kind == "watch":
                yield frame
            else:
                async for piece in self._spoilt(asked, frame, writer):
                    yield piece
            return
        fault = self._fault
        kind = fault.kind if fault else ""
        if kind == "drip" and self._is_due(kind, self._answers):
            self._is_dripping = True
        if self._is_dripping:
            for byte in frame:
                yield bytes([byte])
                await asyncio.sleep(DRIP_SECONDS)
            return
        if kind in ("", "swallow", "refuse", "drip") or not self._is_due(kind, self._answers):
            yield frame
            return
        assert fault is not None
        async for piece in self._spoilt(fault, frame, writer):
            yield piece

    async def _call(self, fault: Fault) -> None:
        """Run the fault's hook to its end, while the other conversations go on."""
        if fault.hook is not None:
            await self._run(fault.hook)

    async def _run(self, hook: Callable[[], T]) -> T:
        """Run it in a thread; what it raises ends the conversation, and is for the test."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, hook)
        except Exception as error:  # noqa: BLE001 - whatever a hook may raise
            assert self._plan is not None
            self._plan.hook_failed = error
            raise _Ended from None

    async def _spoilt(
        self, fault: Fault, frame: bytes, writer: asyncio.StreamWriter
    ) -> AsyncIterator[bytes]:
        """Do to an answer what the fault says."""
        kind, self._random = fault.kind, random.Random(fault.seed)
        half = self._random.randrange(1, len(frame))
        if kind == "hole":
            self._is_silent = True
        elif kind == "lost-answer":
            raise _Ended
        elif kind in ("cut", "reset"):
            yield frame[:half]
            if kind == "reset":
                _reset(writer)
            raise _Ended
        elif kind == "late":
            await asyncio.sleep(1.0)
            yield frame
        else:
            yield self._changed(kind, frame)

    def _changed(self, kind: str, frame: bytes) -> bytes:
        noise = self._random.randbytes
        length, correlation = struct.unpack_from(">ii", frame)
        if kind == "wrong-id":
            return struct.pack(">ii", length, correlation ^ 0x55) + frame[8:]
        if kind == "giant":
            return struct.pack(">i", 0x7FFFFFFF) + frame[4:]
        if kind == "negative":
            return struct.pack(">i", -length) + frame[4:]
        if kind == "garbage":
            return frame[:8] + noise(len(frame) - 8)
        if kind == "noise":
            return noise(self._random.randrange(1, 40)) + frame
        assert kind == "twice", kind
        return frame + frame


async def _deliver(frame: bytes, target: int, seconds: float) -> None:
    await asyncio.sleep(seconds)
    reader, writer = await asyncio.open_connection("127.0.0.1", target)
    try:
        writer.write(frame)
        await writer.drain()
        await _frame(reader)
    finally:
        writer.close()


async def _first_of(*futures: asyncio.Future[None]) -> None:
    """Wait for the first to end, and end the others."""
    try:
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()
    for future in done:
        if not future.cancelled():
            error = future.exception()
            if error is not None:
                raise error


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next whole frame with its length; None at the end."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        head = await reader.readexactly(4)
        (length,) = struct.unpack(">i", head)
        if not 0 < length < MAX_FRAME:
            return None  # no Kafka client: kgtool looks whether it is TLS that is spoken here
        return head + await reader.readexactly(length)
    return None


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of an orderly end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
