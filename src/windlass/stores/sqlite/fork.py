"""What happens to SQLite's connections in a forked child: they are let go of at once, and its own are opened.

SQLite believes that a process holds the locks of every connection open in it, yet locks are not inherited. A child that
opened a connection beside the parent's would work without locks: the parent could remove the log under its hands, and
what the child was told is durable would be gone. Nor may the child keep the parent's lock file open, or the lock of a
parent that was killed would live on in it.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """A connection, as a fork sees it."""

    busy: bool

    def abandon(self, *, close: bool) -> None:
        """Let go of what the child has of it. `close` says that SQLite may be called for that."""
        ...


class Forks:
    """All connections of this process."""

    def __init__(self) -> None:
        self._open: WeakSet[Inherited] = WeakSet()
        self.torn = False
        """Another thread was inside SQLite when this process was forked off: what it held is held for ever here."""

    def watch(self, link: Inherited) -> None:
        """Let go of this one in children."""
        self._open.add(link)

    def forked(self) -> None:
        """Called in a child before anything else."""
        inherited = list(self._open)
        self.torn = self.torn or any(link.busy for link in inherited)
        for link in inherited:
            link.abandon(close=not self.torn)
        self._open.clear()


FORKS = Forks()
os.register_at_fork(after_in_child=FORKS.forked)
