"""Wake-ups between processes that share a SQLite file: each waiting thread has a datagram socket that writers notify.

The sockets are in a folder in the machine's temporary directory, because the path of a socket is limited to about a
hundred characters. Everybody may create that folder first, so it is used only if it belongs to this user and nobody
else can write to it; otherwise a folder next to the database is used. A wake-up is a hint: if it fails, is lost, or
another user may not send it, polling finds the work. So no failure here reaches a caller, whose commit is done.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

_SHORT = 50
"""Characters of a folder whose sockets have a path that is short enough in any case."""


class WakeupSocket(socket.socket):
    """A socket that is closed with the last reference to it."""

    def __init__(self) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __del__(self) -> None:
        self.close()


class Wakeup:
    """Notifies all threads that wait for work in one SQLite file."""

    def __init__(self, path: str) -> None:
        name = sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        self._folders = (
            Path(tempfile.gettempdir()) / f"windlass-{os.geteuid()}" / name,
            Path(f"{os.path.realpath(path)}-wakeup") / name,
        )
        """Where the sockets are: in the first folder whose parent is private."""
        self._private: Path | None = None
        """The folder that is notified, once it is there. Others cannot replace a private one."""
        self._over = threading.Event()
        self._sender = WakeupSocket()
        self._thread = threading.local()
        self._paths: list[Path] = []
        self._closed = False

    def notify(self) -> None:
        """Wake up all waiting threads. Remove the sockets of dead processes."""
        if self._private is None:
            self._private = next((folder for folder in self._folders if _is_private(folder.parent)), None)
        if self._private is not None:  # Otherwise nobody has waited yet.
            with suppress(OSError), _reachable(self._private) as folder:
                for listener in os.listdir(folder):  # noqa: PTH208 - names are enough, on a path of two kinds
                    self._notify_one(f"{folder}/{listener}")

    def wait(self, timeout: timedelta) -> bool:
        """Wait for a wake-up. Return False after `timeout`."""
        try:
            listener = self._listener()
        except OSError:  # No folder is private, or it has no room: wait without wake-ups.
            return self._over.wait(max(0.0, timeout.total_seconds()))
        poll = select.poll()  # `select` refuses descriptors above 1,023, which a node with many workers has.
        poll.register(listener, select.POLLIN)
        ready = poll.poll(max(0.0, timeout.total_seconds()) * 1_000)
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
        self._over.set()
        self.notify()
        for path in self._paths:
            if path.name.startswith(f"{os.getpid()}-"):  # the others belong to the parent process of a fork
                with suppress(OSError):
                    path.unlink()
        self._paths.clear()

    def _listener(self) -> socket.socket:
        known: tuple[int, socket.socket] | None = getattr(self._thread, "listener", None)
        if known is not None and known[0] == os.getpid():
            return known[1]
        folder = self._make_folder()
        listener = WakeupSocket()
        path = folder / f"{os.getpid()}-{threading.get_ident()}-{listener.fileno()}"
        path.unlink(missing_ok=True)
        with _reachable(folder) as place:
            listener.bind(f"{place}/{path.name}")
        self._paths.append(path)
        self._thread.listener = (os.getpid(), listener)
        return listener

    def _make_folder(self) -> Path:
        """Create the folder for the sockets, in the first place that is private. Raise `OSError` if there is none."""
        for folder in self._folders:
            with suppress(OSError):
                folder.parent.mkdir(mode=0o700, exist_ok=True)
            if _is_private(folder.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
                return folder
        raise PermissionError(f"{self._folders[0].parent} belongs to another user")

    def _notify_one(self, listener: str) -> None:
        try:
            self._sender.sendto(b"!", listener)
        except ConnectionRefusedError:
            with suppress(OSError):
                Path(listener).unlink()
        except OSError:
            return  # Its buffer is full, so it will wake up; or it is gone, or not a socket of ours.


@contextmanager
def _reachable(folder: Path) -> Generator[str]:
    """Return a path of the folder that is short enough for a socket in it."""
    if len(str(folder)) <= _SHORT:
        yield str(folder)
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


def _is_private(folder: Path) -> bool:
    """Return True if this is a folder of this user that nobody else can write to. A link is not."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
