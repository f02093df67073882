"""Calls that run in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0


class InThread(threading.Thread, Generic[T]):
    """One call, begun at once. What it returned or raised is had from `answer`."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is asked for
            self._error = error

    def answer(self) -> T:
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), f"the call still hangs after {PATIENCE_SECONDS} s"
        if self._error is not None:
            raise self._error
        return self._answers[0]
