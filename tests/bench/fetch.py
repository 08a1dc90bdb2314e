"""A bare Fetch loop on one broker: ask, and write the bytes that come. The limit of an export.

A program of its own: ``python fetch.py HOST:PORT FOLDER``. Fetch v4 and ListOffsets v1, as the
first versions with the record format of today.
"""

import socket
import struct
import sys
from pathlib import Path

TOPIC = b"__consumer_offsets"
PARTITIONS = 50


def string(raw: bytes) -> bytes:
    """Write a string with its length."""
    return struct.pack(">h", len(raw)) + raw


def ask(sock: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request and return the answer behind its correlation id."""
    request = struct.pack(">hhi", key, version, 7) + string(b"bare") + body
    sock.sendall(struct.pack(">i", len(request)) + request)
    size = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))[0]
    return sock.recv(size, socket.MSG_WAITALL)[4:]


def end_of(sock: socket.socket, partition: int) -> int:
    """Return the high watermark of a partition."""
    body = struct.pack(">ii", -1, 1) + string(TOPIC) + struct.pack(">iiq", 1, partition, -1)
    return int(struct.unpack(">q", ask(sock, 2, 1, body)[-8:])[0])


def fetch(sock: socket.socket, partition: int, offset: int) -> bytes:
    """Return the records of one partition from an offset on, 8 MiB at most."""
    most = 8 << 20
    body = struct.pack(">iiiib", -1, 100, 1, most, 0) + struct.pack(">i", 1) + string(TOPIC)
    body += struct.pack(">iiqi", 1, partition, offset, most)
    answer = ask(sock, 1, 4, body)
    at = 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 2 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + max(aborted, 0) * 16
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def copy(sock: socket.socket, partition: int, path: str) -> None:
    """Write a partition's whole batches to a file."""
    end, offset = end_of(sock, partition), 0
    with open(path, "wb") as file:
        while offset < end:
            data = fetch(sock, partition, offset)
            at = 0
            while at + 61 <= len(data):
                base, size = struct.unpack_from(">qi", data, at)
                if at + 12 + size > len(data) or base >= end:
                    break
                offset = base + struct.unpack_from(">i", data, at + 23)[0] + 1
                at += 12 + size
            file.write(memoryview(data)[:at])


def main() -> None:
    """Copy all partitions."""
    host, _, port = sys.argv[1].partition(":")
    Path(sys.argv[2]).mkdir(parents=True)
    with socket.create_connection((host, int(port))) as sock:
        for partition in range(PARTITIONS):
            if end_of(sock, partition) > 0:
                copy(sock, partition, f"{sys.argv[2]}/{partition}.log")


if __name__ == "__main__":
    main()
