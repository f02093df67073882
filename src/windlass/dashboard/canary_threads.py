"""Runs canaries in threads of the server. Their progress is in the store, where every server reads it."""

from __future__ import annotations

import logging
from threading import Event

from windlass.clock import sleep
from windlass.errors import WindlassError
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.canary import POLL_SECONDS, Canary
from windlass.server.background import BackgroundThreads
from windlass.stores.dead_letters import DeadGroup

logger = logging.getLogger("windlass.server")

MAX_PATIENCE = 3_600.0


def run_in_background(
    threads: BackgroundThreads, access: Access, group: DeadGroup, patience: float, author: Author
) -> str:
    """Make the first step of a canary now and the others in a thread. Return what the first step did.

    A server that stops ends the canary between two steps; what was not retried yet stays as it is.
    """
    canary = Canary(access, group, patience, author)
    first = canary.step()
    if not canary.ended:
        threads.start(f"canary-{group.id}", lambda: _finish(canary, group.id, threads.stopping))
    return "" if first is None else first.text


def _finish(canary: Canary, group: str, stopping: Event) -> None:
    try:
        while not canary.ended and not stopping.is_set():
            if canary.step() is None:
                sleep(POLL_SECONDS)
    except WindlassError as error:
        logger.warning("the canary of %s stopped: %s", group, error)
