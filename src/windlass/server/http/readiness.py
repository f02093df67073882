"""Whether the store answers. Everybody may ask, without a token and without a rate limit, so the answer is shared."""

from __future__ import annotations

from threading import Lock

from windlass.clock import monotonic
from windlass.errors import WindlassError
from windlass.health import Part
from windlass.stores.protocol import Store

REMEMBERED = 1.0
"""For how many seconds an answer is used again."""


class Readiness:
    """The latest answer of the store. One thread asks it, and the others wait for that answer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._part: Part | None = None
        self._asked = 0.0

    def check(self, store: Store) -> Part:
        """Return whether the store answers, as of less than a second ago."""
        with self._lock:
            if self._part is None or monotonic() - self._asked >= REMEMBERED:
                self._part, self._asked = _ask(store), monotonic()
            return self._part


def _ask(store: Store) -> Part:
    try:
        store.queues()
    except WindlassError as error:
        return Part(name="store", ready=False, text=error.code)
    return Part(name="store", ready=True, text="ok")
