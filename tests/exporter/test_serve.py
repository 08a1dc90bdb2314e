"""The HTTP endpoint against clients that are slow, many, or not allowed.

Stands for: a scrape gets its answer whatever others do. Siblings: a byte now and then, nothing at
all, more than the cap, no file descriptors left, a token that is wrong, missing or unreadable.
"""

from __future__ import annotations

import errno
import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kgtool.exporter import serve

BODY = b"up 1\n"


@contextmanager
def serving(token_file: str | None = None) -> Iterator[tuple[str, int]]:
    with serve.Server("127.0.0.1", 0, lambda: [BODY], token_file) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()
        thread.join()


def scrape(at: tuple[str, int], **headers: str) -> tuple[int, bytes]:
    asked = http.client.HTTPConnection(*at, timeout=5)
    asked.request("GET", "/metrics", headers=headers)
    answer = asked.getresponse()
    found = answer.status, answer.read()
    asked.close()
    return found


def until(test: Callable[[], bool]) -> None:
    end = time.monotonic() + serve.REQUEST_S / 2
    while not test():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_many_that_drip_do_not_keep_a_scrape_out() -> None:
    before = threading.active_count()
    with serving() as at, ExitStack() as held:
        peers = [held.enter_context(socket.create_connection(at)) for _ in range(2 * serve.MOST)]
        for peer in peers:
            try:
                peer.sendall(b"G")
            except OSError:
                continue  # made room already
        began = time.monotonic()
        assert scrape(at) == (200, BODY)
        assert time.monotonic() - began < 2
        until(lambda: threading.active_count() - before <= serve.MOST + 2)
        assert is_closed(peers[0])  # the oldest made room
        assert not is_closed(peers[-1])


def test_a_request_has_a_deadline_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_S", 0.5)
    with serving() as at, socket.create_connection(at) as peer:
        began = time.monotonic()
        while not is_closed(peer):
            try:
                peer.send(b"G")
            except OSError:
                break
            time.sleep(0.05)
            assert time.monotonic() - began < 5
        assert time.monotonic() - began >= 0.4
        assert scrape(at) == (200, BODY)


def test_without_file_descriptors_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = ThreadingHTTPServer.get_request, 0

    def get_request(server: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(server)

    monkeypatch.setattr(ThreadingHTTPServer, "get_request", get_request)
    with serving() as at:
        began = time.monotonic()
        assert scrape(at) == (200, BODY)
        assert time.monotonic() - began >= 3 * serve.PAUSE_S
        assert tries == 4  # and not as fast as it can


def test_only_the_token_is_let_in(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    with serving(str(file)) as at:
        assert scrape(at, Authorization="Bearer secret") == (200, BODY)
        for wrong in ("Bearer wrong", "Bearer ", "Basic secret", "secret", "Bearer sécret"):
            assert scrape(at, Authorization=wrong.encode().decode("latin-1"))[0] == 401, wrong
        assert scrape(at)[0] == 401
        file.write_text("")  # an empty token is none
        assert scrape(at, Authorization="Bearer ")[0] == 401
        file.unlink()  # unreadable: nobody is let in
        assert scrape(at, Authorization="Bearer secret")[0] == 401
        file.write_text("other")
        assert scrape(at, Authorization="Bearer other") == (200, BODY)
