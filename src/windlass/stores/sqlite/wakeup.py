"""Wake-ups between processes that share a SQLite file: each waiting thread has a datagram socket that writers notify.

The sockets are in a folder in the machine's temporary directory, because the path of a socket is limited to about a
hundred characters. A wake-up is a hint: if it is lost, or another user may not send it, polling finds the work.
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
    """A socket that is closed with the last reference to it, which its thread holds."""

    def __del__(self) -> None:
        self.close()


class Wakeup:
    """Notifies all threads that wait for work in one SQLite file."""

    def __init__(self, path: str) -> None:
        name = sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"windlass-{os.getuid()}" / name
        self._thread = threading.local()
        self._paths: list[Path] = []
        self._closed = False

    def notify(self) -> None:
        """Wake up all waiting threads. Remove the sockets of dead processes."""
        if not self._folder.is_dir():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            for listener in self._folder.iterdir():
                self._notify_one(sender, listener)

    def wait(self, timeout: timedelta) -> bool:
        """Wait for a wake-up. Return False after `timeout`."""
        listener = self._listener()
        ready, _, _ = select.select([listener], [], [], timeout.total_seconds())
        # All wake-ups received so far count as one.
        with suppress(BlockingIOError):
            while ready and not self._closed:
                listener.recv(1)
        return bool(ready)

    def close(self) -> None:
        """Wake up the waiting threads of this process, and remove their sockets' files.

        The threads close their sockets themselves: closed here, the descriptor could be another file when it is read.
        """
        self._closed = True
        self.notify()
        for path in self._paths:
            if path.name.startswith(f"{os.getpid()}-"):  # the others belong to the parent process of a fork
                path.unlink(missing_ok=True)
        self._paths.clear()

    def _listener(self) -> socket.socket:
        known: tuple[int, socket.socket] | None = getattr(self._thread, "listener", None)
        if known is not None and known[0] == os.getpid():
            return known[1]
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        listener = WakeupListener(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        path = self._folder / f"{os.getpid()}-{threading.get_ident()}-{listener.fileno()}"
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        self._paths.append(path)
        self._thread.listener = (os.getpid(), listener)
        return listener

    @staticmethod
    def _notify_one(sender: socket.socket, listener: Path) -> None:
        try:
            sender.sendto(b"!", str(listener))
        except ConnectionRefusedError:
            listener.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            return  # Its buffer is full, so it will wake up; or it is gone; or it belongs to another user.
