"""The lock file of a SQLite database, on which writers wait in turn, and who holds it.

The kernel wakes up one waiting writer after the other, but a wait for a file lock has no time limit. So it happens in a
thread of its own if the lock is taken, and the writer gives up after a while: the holder may be a stopped process.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class LockFile:
    """The lock file of one connection. Only the thread of that connection locks it."""

    def __init__(self, path: str) -> None:
        self._fd = _open(path)
        self._fds = [self._fd]
        """The file, in a list: two threads may close it at the same time, and one pops it."""
        self._wait: _Wait | None = None

    def lock(self, seconds: float) -> bool:
        """Lock the file. Return False if that was not possible in time; the next call keeps the place in the queue."""
        if self._wait is None or not self._wait.resume():
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait = _Wait(self._fd)
            else:
                self._wait = None
                return True
        try:
            is_locked = self._wait.granted.wait(seconds)
        except BaseException:
            if not self._wait.give_up():
                self.unlock()
            raise
        if is_locked or not self._wait.give_up():
            self._wait = None
            return True
        return False

    def unlock(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. A thread that still waits for the lock releases it as soon as it has it."""
        with suppress(IndexError):  # It is already closed. `pop` is atomic.
            os.close(self._fds.pop())

    def abandon(self) -> None:
        """Close the file in a forked child, in which no thread waits."""
        if self._wait is not None:
            self._wait.close()
        self.close()


class _Wait:
    """A thread that waits for the lock, through a descriptor of its own for the same open file."""

    def __init__(self, fd: int) -> None:
        self._fds = [os.dup(fd)]
        self._mutex = threading.Lock()
        self._is_wanted = True
        self._is_over = False
        self.granted = threading.Event()
        threading.Thread(target=self._run, name="windlass-sqlite-lock", daemon=True).start()

    def resume(self) -> bool:
        """Want the lock again. Return False if the thread has ended, because nobody wanted it."""
        with self._mutex:
            self._is_wanted = not self._is_over
            return self._is_wanted

    def give_up(self) -> bool:
        """Want the lock no longer. Return False if it has been granted just now."""
        with self._mutex:
            self._is_wanted = self.granted.is_set()
            return not self._is_wanted

    def close(self) -> None:
        with suppress(IndexError):
            os.close(self._fds.pop())

    def _run(self) -> None:
        fcntl.flock(self._fds[0], fcntl.LOCK_EX)
        with self._mutex:
            self._is_over = True
            if self._is_wanted:
                self.granted.set()
            else:
                fcntl.flock(self._fds[0], fcntl.LOCK_UN)
        self.close()


class Holder(NamedTuple):
    """A process that holds a lock."""

    pid: int
    name: str
    is_stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name}{', which is stopped' if self.is_stopped else ''})"


def find_holder(path: str) -> Holder | None:
    """Return the process that is writing to a database, as far as the kernel shows it."""
    files = {inode for name in (f"{path}-lock", f"{path}-shm") if (inode := _inode(name)) is not None}
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            _, *fields = line.split()
            if len(fields) < 5 or fields[0] == "->":  # A process that waits.
                continue
            _, _, mode, pid, file, *_ = fields
            if mode == "WRITE" and file.rpartition(":")[2] in files and int(pid) > 0:
                return _describe(int(pid))
    return None


def locked_message(path: str, seconds: float) -> str:
    """Return the error message for a writer that has waited without success."""
    holder = find_holder(path)
    start = f"{path}: waited {seconds:g} s to write, because"
    if holder is None:
        return f"{start} another process is writing and does not finish. Nothing was written. Try again later."
    if holder.is_stopped:
        return (
            f"{start} {holder} is in the middle of a write. Nothing was written. Resume it (kill -CONT {holder.pid}) "
            "or end it, and try again."
        )
    return f"{start} {holder} is writing and does not finish. Nothing was written. Try again later, or end it."


def _describe(pid: int) -> Holder:
    name, state = "unknown", ""
    with suppress(OSError):
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        name, state = before.partition("(")[2], after.split()[0]
    return Holder(pid, name, state in ("T", "t"))


def _inode(path: str) -> str | None:
    with suppress(OSError):
        return str(os.stat(path).st_ino)  # noqa: PTH116 - as in `database`
    return None


def _open(path: str) -> int:
    """Open the lock file of a database. A new one gets the mode of the database, whatever the umask is."""
    lock = f"{path}-lock"
    with suppress(FileExistsError):
        created = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(created, os.stat(path).st_mode & 0o666)  # noqa: PTH116 - as in `database`
        return created
    return os.open(lock, os.O_RDWR | os.O_CLOEXEC)
