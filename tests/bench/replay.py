"""Send recorded requests one after the other and read the answers, bare: the limit.

A program of its own, and with the fewest imports: ``python -S replay.py HOST:PORT FILE``.
"""

import socket
import sys


def main() -> None:
    """Replay a file of requests as hexadecimal strings in a JSON list."""
    host, _, port = sys.argv[1].partition(":")
    with open(sys.argv[2], encoding="ascii") as file:
        requests = [bytes.fromhex(word) for word in file.read().strip('[]"\n').split('", "')]
    with socket.create_connection((host, int(port))) as sock:
        buffer = memoryview(bytearray(64 << 20))
        for request in requests:
            sock.sendall(request)
            size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
            while size > 0:
                size -= sock.recv_into(buffer, min(size, len(buffer)))


if __name__ == "__main__":
    main()
