"""Record what kgtool sends, to send it again without looking at the answers."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
from pathlib import Path

from tests.bench.installed import KGTOOL
from tests.bench.world import World


def record(world: World, argv: list[str]) -> Path:
    """Run kgtool through a relay on the broker's bootstrap address; return the file of requests.

    Only the connections that it makes to the bootstrap address come by. The relay answers
    Metadata and DescribeCluster as the broker does, so kgtool goes on to the broker itself; with
    one broker that is the address it has already, and its connection stays.
    """
    requests: list[str] = []
    path = world.folder / "requests.json"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        thread = threading.Thread(target=_serve, args=(server, world, requests), daemon=True)
        thread.start()
        subprocess.run(
            [KGTOOL, "--bootstrap-server", f"127.0.0.1:{port}", *argv],
            stdout=subprocess.DEVNULL,
            check=True,
            env={**os.environ},
        )
    path.write_text(json.dumps(requests))
    return path


def _serve(server: socket.socket, world: World, requests: list[str]) -> None:
    host, _, port = world.bootstrap.partition(":")
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        upstream = socket.create_connection((host, int(port)))
        threading.Thread(target=_requests, args=(client, upstream, requests), daemon=True).start()
        threading.Thread(target=_answers, args=(upstream, client, port), daemon=True).start()


def _frames(sock: socket.socket) -> bytes | None:
    head = sock.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    (size,) = struct.unpack(">i", head)
    return head + sock.recv(size, socket.MSG_WAITALL)


def _requests(client: socket.socket, upstream: socket.socket, requests: list[str]) -> None:
    while frame := _frames(client):
        requests.append(frame.hex())
        upstream.sendall(frame)
    upstream.close()


def _answers(upstream: socket.socket, client: socket.socket, port: str) -> None:
    """Pass on the answers, with the broker's port replaced by the relay's."""
    theirs = struct.pack(">i", int(port))
    ours = struct.pack(">i", client.getsockname()[1])
    try:
        while frame := _frames(upstream):
            small = len(frame) < 4096  # Metadata and the like
            client.sendall(frame.replace(theirs, ours) if small else frame)
    except OSError:
        return
