"""A disk of a few megabytes that tests fill and free: a file system in memory. Only root can mount one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class CannotMount(RuntimeError):
    """This process may not mount a file system."""


class SmallDisk:
    """A mounted file system of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no free byte."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                with suppress(OSError):  # nothing of this size fits any more
                    while file.write(b"x" * size):
                        pass

    def free(self) -> None:
        """Remove what `fill` wrote."""
        self._filler.unlink()


@contextmanager
def mounted_disk(megabytes: int) -> Iterator[SmallDisk]:
    """Mount a small disk. It is removed at the end, also if files on it are still open."""
    if os.geteuid() != 0:
        raise CannotMount("only root can mount a small disk to fill")
    folder = Path(tempfile.mkdtemp(prefix="windlass-disk-"))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        folder.rmdir()
        raise CannotMount(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
