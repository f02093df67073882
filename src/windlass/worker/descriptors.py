"""A worker's own descriptors among those of its handlers, which may close or replace any of them."""

from __future__ import annotations

import fcntl
import os
import resource

_HIGH = 512


def move_up(descriptor: int) -> int:
    """Move a descriptor above those that are closed by the dozen, or reused for new files; return its new number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _HIGH if soft == resource.RLIM_INFINITY else min(_HIGH, soft // 2)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return moved


class Guard:
    """Knows whether a descriptor still stands for the file that it was made for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = self._identity()

    def intact(self) -> bool:
        """Return False if the descriptor was closed, or stands for another file now."""
        try:
            return self._identity() == self._file
        except OSError:
            return False

    def _identity(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino
