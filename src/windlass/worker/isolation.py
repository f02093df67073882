"""What keeps handlers, and other programs of the same user, from reading the store's password out of a node.

A node reads the URL of its store from its command line, its environment or a file. Other processes of the same user can
read the first two in `/proc`, and the whole memory of a process that is *dumpable*. So a node makes itself not
dumpable, and overwrites the URL in the blocks that the kernel shows. Root can still read everything.
"""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from windlass.config import InvalidSettings

_PR_SET_DUMPABLE = 4
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48
"""Places of the addresses in `/proc/self/stat`, after the name of the program."""
SECRET_VARIABLES = ("WINDLASS_URL", "WINDLASS_LISTEN_URL", "DATABASE_URL", "PGPASSWORD")
"""Variables whose values are overwritten, besides those that contain the URL of the store."""
_COVER = b"*"


def set_dumpable(dumpable: bool) -> None:
    """Set whether other processes of this user may read the memory of this one, and whether a crash dumps it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def protect_process(store_url: str) -> None:
    """Make this process not dumpable, and hide the URL of the store where the kernel shows it to others.

    The environment stays the same for this process and those that it starts. The command line loses the URL.
    """
    set_dumpable(False)
    blocks = _find_blocks()
    if blocks is None:
        return
    arguments, environment = blocks
    _overwrite(arguments, [store_url.encode()])
    secret = [
        name for name, value in os.environ.items() if name in SECRET_VARIABLES or (store_url and store_url in value)
    ]
    values = [f"{name}={os.environ[name]}".encode() for name in secret]
    for name in secret:
        os.environ[name] = os.environ[name]  # The C library copies it, and uses the copy from now on.
    _overwrite(environment, values, keep=b"=")


class _Block(NamedTuple):
    """A part of the memory of this process that the kernel shows to others."""

    start: int
    end: int


def _find_blocks() -> tuple[_Block, _Block] | None:
    """Return where the command line and the first environment of this process are; None if that is not known."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        places = [int(fields[place]) for place in (_ARG_START, _ARG_END, _ENV_START, _ENV_END)]
    except (OSError, IndexError, ValueError):
        return None
    return (_Block(*places[:2]), _Block(*places[2:])) if all(places) else None


def _overwrite(block: _Block, secrets: Iterable[bytes], keep: bytes = b"") -> None:
    """Overwrite secrets in a block. With `keep`, what is before its first occurrence in a secret stays."""
    size = block.end - block.start
    text = ctypes.string_at(block.start, size)
    for secret in filter(None, secrets):
        kept = secret.index(keep) + 1 if keep else 0
        place = text.find(secret)
        while place >= 0:
            ctypes.memset(block.start + place + kept, _COVER[0], len(secret) - kept)
            place = text.find(secret, place + len(secret))


class WorkerUser(NamedTuple):
    """The user as whom the worker parent and its workers run."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name the user."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def find_user(name: str) -> WorkerUser:
    """Return a user of this machine. Raise `InvalidSettings` if workers cannot run as that user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise InvalidSettings(f"worker_user={name!r}: there is no such user on this machine.") from None
    if os.geteuid() not in (0, found.pw_uid):
        raise InvalidSettings(
            f"worker_user={name!r}: only root can run workers as another user. Start the node as root, or as {name}."
        )
    if found.pw_uid == 0:
        raise InvalidSettings(f"worker_user={name!r} is root, who can read the memory of the node. Name another user.")
    groups = os.getgrouplist(name, found.pw_gid) if os.geteuid() == 0 else os.getgroups()
    return WorkerUser(name, found.pw_uid, found.pw_gid, tuple(groups), found.pw_dir)
