"""Wake-up between the processes that share a SQLite file: each waiting thread has a datagram socket, writers ring them.

The sockets are in a folder of their own beside the machine's temporary files, because a socket's path may be only about
a hundred characters long. A bell is a hint: one that is lost, or that another user may not ring, costs a little time.
"""

from __future__ import annotations

import os
import select
import socket
import tempfile
import threading
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path


class WakeupListener(socket.socket):
    """A socket that closes itself with the last reference to it, which is its thread's."""

    def __del__(self) -> None:
        self.close()


class Wakeup:
    """Rings everyone who waits for work in one SQLite file."""

    def __init__(self, path: str) -> None:
        name = sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"windlass-{os.getuid()}" / name
        self._thread = threading.local()
        self._paths: list[Path] = []
        self._closed = False

    def notify(self) -> None:
        """Wake everyone who waits. The sockets of dead processes are cleared away."""
        if not self._folder.is_dir():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            for ear in self._folder.iterdir():
                self._ring_one(sender, ear)

    def wait(self, timeout: timedelta) -> bool:
        """Sleep until somebody rings, or the time is up."""
        ear = self._ear()
        heard, _, _ = select.select([ear], [], [], timeout.total_seconds())
        # Everything that was rung meanwhile is one hint.
        with suppress(BlockingIOError):
            while heard and not self._closed:
                ear.recv(1)
        return bool(heard)

    def close(self) -> None:
        """Wake this process's waiters for the last time, and take their names away.

        A socket is closed when its thread lets go of it: closed here, it could be another file by the time it is read.
        """
        self._closed = True
        self.notify()
        for path in self._paths:
            if path.name.startswith(f"{os.getpid()}-"):  # the others are those of the process we were forked from
                path.unlink(missing_ok=True)
        self._paths.clear()

    def _ear(self) -> socket.socket:
        known: tuple[int, socket.socket] | None = getattr(self._thread, "ear", None)
        if known is not None and known[0] == os.getpid():
            return known[1]
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ear = WakeupListener(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        path = self._folder / f"{os.getpid()}-{threading.get_ident()}-{ear.fileno()}"
        path.unlink(missing_ok=True)
        ear.bind(str(path))
        self._paths.append(path)
        self._thread.ear = (os.getpid(), ear)
        return ear

    @staticmethod
    def _ring_one(sender: socket.socket, ear: Path) -> None:
        try:
            sender.sendto(b"!", str(ear))
        except ConnectionRefusedError:
            ear.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            return  # Its buffer is full, so it will wake; or it has just gone; or it is another user's.
