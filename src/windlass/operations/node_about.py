"""What a node says about itself with its session: its queues, pools, tags, handlers and crons."""

from __future__ import annotations

import msgspec

from windlass.stores.protocol import Session


class AboutPool(msgspec.Struct):
    """A pool of a node."""

    queues: frozenset[str]
    threads: int | None = None
    order: str = "queues"
    memory: int | None = None


class About(msgspec.Struct):
    """The part of a node's published description that is needed here."""

    queues: frozenset[str] | None = None
    pools: dict[str, AboutPool] | None = None
    tags: frozenset[str] | None = None
    handlers: frozenset[str] | None = None
    crons: frozenset[str] | None = None
    retention: float | None = None
    """How many seconds it keeps finished tasks."""
    slots: int = 1
    """For workers over HTTP, which have no pools."""
    memory: int | None = None
    """For the same workers."""


def served_queues(session: Session) -> frozenset[str]:
    """Return the queues that a node says it serves."""
    return read_about(session).queues or frozenset()


def read_about(session: Session) -> About:
    """Return what a node says about itself; nothing if it cannot be read."""
    try:
        return msgspec.json.decode(session.about, type=About)
    except msgspec.DecodeError:
        return About()
