"""Drop SQLite connections in a forked child, which then opens its own.

SQLite assumes that a process holds the locks of all its open connections, but locks are not inherited. A child that
opened a connection while the parent's are open would work without locks: the parent could remove the log, and committed
data of the child would be lost. The child must not keep the parent's lock file open either, because the lock would
outlive a killed parent.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """A connection that a forked child must drop."""

    busy: bool

    def abandon(self, *, close: bool) -> None:
        """Drop the connection in the child. With `close`, SQLite may be called for that."""
        ...


class Forks:
    """All connections of this process."""

    def __init__(self) -> None:
        self._open: WeakSet[Inherited] = WeakSet()
        self.torn = False
        """True if another thread was inside SQLite during the fork: its locks stay held forever in this process."""

    def watch(self, link: Inherited) -> None:
        """Drop this connection in forked children."""
        self._open.add(link)

    def forked(self) -> None:
        """Drop all connections. Called in a forked child before anything else."""
        inherited = list(self._open)
        self.torn = self.torn or any(link.busy for link in inherited)
        for link in inherited:
            link.abandon(close=not self.torn)
        self._open.clear()


FORKS = Forks()
os.register_at_fork(after_in_child=FORKS.forked)
