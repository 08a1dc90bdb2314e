"""A listener in front of a broker's that keeps every byte a client sends."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time


class Ear:
    """Relays to a broker's listener on this machine.

    :param ip: where it listens, at ``port`` (0: any).
    """

    def __init__(self, target: int, ip: str = "127.0.0.1", port: int = 0) -> None:
        self.heard = b""
        self.slow = False
        """Whether the broker's answers come at 10 kB/s."""
        self.delay = 0.0
        """How late each answer of the broker is, in seconds."""
        self.hangs_up_at: bytes | None = None
        """What it hangs up at when it hears it."""
        self._target = ("127.0.0.1", target)
        self._listener = socket.create_server((ip, port))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"{ip}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(peer,), daemon=True).start()

    def _relay(self, peer: socket.socket) -> None:
        broker = socket.create_connection(self._target)
        with peer, broker, selectors.DefaultSelector() as ready:
            ready.register(peer, selectors.EVENT_READ, broker)
            ready.register(broker, selectors.EVENT_READ, peer)
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in ready.select():
                        is_slow = self.slow and key.fileobj is broker
                        data = key.fileobj.recv(5000 if is_slow else 65536)  # type: ignore[union-attr]
                        if not data:
                            return
                        if key.fileobj is peer:
                            self.heard += data
                            if self.hangs_up_at is not None and self.hangs_up_at in data:
                                return
                        elif self.delay:
                            time.sleep(self.delay)
                        key.data.sendall(data)
                        time.sleep(0.5 if is_slow else 0)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()
