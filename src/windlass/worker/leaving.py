"""Makes a node leave when the operating system asks for it."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from windlass.worker.node import Node

LEAVE = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal:
    """A signal handler: the first signal drains the node, the second hurries it, the third kills its workers."""

    def __init__(self, node: Node) -> None:
        self._steps = (node.drain, node.hasten_drain, node.kill)
        self._signals = 0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        step = self._steps[min(self._signals, len(self._steps) - 1)]
        self._signals += 1
        # In a thread of its own: the handler may have interrupted a thread that holds the lock it would wait for.
        threading.Thread(target=step).start()
