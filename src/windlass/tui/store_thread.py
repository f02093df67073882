"""Where the store is asked: one thread beside the one that draws, so that a slow store never stops a key.

The store is opened there too, at the first question: one that is away at the start is only a banner, like one that goes
away later. A question that fails is answered with its error.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from windlass.stores.protocol import Store

T = TypeVar("T")

PATIENCE_SECONDS = 2.0
"""How long leaving waits for a question that is under way."""


class StoreThread:
    """Answers questions to the store, one after the other."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._store: Store | None = None
        self._questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="windlass-top", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def submit(self, question: Callable[[Store], T], answer: Callable[[T | Exception], None]) -> None:
        """Have `answer` called with what the store says, or with the error; it is called in the desk's thread."""

        def ask() -> None:
            try:
                found = question(self._opened())
            except Exception as error:  # noqa: BLE001 - whatever it is, the pages stay and show it
                answer(error)
            else:
                answer(found)

        self._questions.put(ask)

    def close(self) -> None:
        """Answer what was asked, and let the store go; without waiting for one that hangs."""
        self._questions.put(None)
        self._thread.join(PATIENCE_SECONDS)

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open()
        return self._store

    def _work(self) -> None:
        while (ask := self._questions.get()) is not None:
            ask()
        if self._store is not None:
            self._store.close()
