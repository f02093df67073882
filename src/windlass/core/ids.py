"""Task ids. The same key always gives the same id, so submits are idempotent and a task can be named in advance.

Without a key, an id is a version 7 UUID (time, then random bits). With a key, it is a version 8 UUID: the head of a
SHA-256 over tenant, workflow and key, each prefixed with its length to avoid ambiguity.
"""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

from windlass.core.task import TaskId
from windlass.core.times import Micros

_VARIANT = 0b10 << 62


def fresh_id(now: Micros, random: int) -> TaskId:
    """Return a new id that sorts by creation time. `random` supplies 62 random bits."""
    millis, rest = divmod(now, 1_000)
    return TaskId(UUID(int=millis << 80 | 7 << 76 | rest << 64 | _VARIANT | random & (1 << 62) - 1))


def keyed_id(tenant: str, workflow: str | None, key: str) -> TaskId:
    """Return the id of the task with this key."""
    return TaskId(_version_8(b"task", tenant, workflow or "", key))


def workflow_id(tenant: str, workflow: str) -> UUID:
    """Return the id of a workflow. The roots of an unsealed workflow wait for this id as for a prerequisite."""
    return _version_8(b"workflow", tenant, workflow)


def unique_lock_id(tenant: str, queue: str, handler: str, key: str) -> UUID:
    """Return the id of the lock of equal tasks."""
    return _version_8(b"unique", tenant, queue, handler, key)


def _version_8(kind: bytes, *names: str) -> UUID:
    parts = [kind]
    for name in names:
        text = name.encode()
        parts += [len(text).to_bytes(4, "big"), text]
    number = int.from_bytes(sha256(b"".join(parts)).digest()[:16], "big")
    number &= ~(0xF << 76 | 0b11 << 62)
    return UUID(int=number | 8 << 76 | _VARIANT)
