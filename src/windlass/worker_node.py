"""A node inside a program, as `app.worker` returns it, and its options.

`windlass.worker.embedded` has the class that does the work. It stands above apps, which therefore import it by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, TypedDict

from windlass.config import PoolSettings
from windlass.events import Event


class WorkerOptions(TypedDict, total=False):
    """What a node inside a program is told. Everything has the default that `windlass worker` has."""

    queues: Sequence[str]
    """The queues to serve, in turn; `default` if left out."""
    size: int | None
    """How many workers; None lets the pool size itself."""
    threads: int
    """How many tasks a worker runs at once."""
    pools: Sequence[PoolSettings]
    """Several pools, in place of `queues`, `size` and `threads`."""
    name: str
    """What people call the node; the machine's name and the process id if left out."""
    tags: Sequence[str]
    """What this machine has, for tasks that say `requires`."""
    drain_timeout: timedelta | float | str | None
    """How long a stop waits for running tasks before they are stopped and given back; None for as long as they take."""
    session_ttl: timedelta | float | str
    """How long after its last renewal the node counts as lost."""
    pass_store_url: bool
    """Whether workers see the store's URL in their environment."""
    app_path: str
    """Where workers find the app, as in `shop:app`; needed only if that cannot be found out."""
    on_event: Callable[[Event], None]
    """Called with everything that happens on the node, in the thread in which it happens; it must be quick."""


class WorkerNode(ABC):
    """A node of this program. It starts once; leaving the `with` block stops it.

    >>> with app.worker(queues=["mail"], size=2) as node:
    ...     send.enqueue("a@b.c").result()

    Leaving the block normally drains the node. Leaving it by an exception stops running tasks and gives them back.
    """

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it was started and has neither been stopped nor ended by itself."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """The thread whose failure ended the node, if one did."""

    @abstractmethod
    def start(self) -> None:
        """Import the app in a process of its own and begin to work.

        Raises `AppBroken` if it cannot be imported, or if that does not register every handler that this program has.
        """

    @abstractmethod
    def stop(self, wait: bool = True, timeout: float | None = None) -> None:
        """Stop the node, and return when its workers are gone. Stopping twice does nothing.

        With `wait`, running tasks may end first, for `timeout` seconds or else the node's `drain_timeout`. Without it,
        or when the time is up, they are stopped and given back to the store, which charges them no attempt.
        """

    @abstractmethod
    def join(self, timeout: float | None = None) -> bool:
        """Wait until the node has ended by itself, by a signal, or in another thread; return whether it has."""

    @abstractmethod
    def run(self) -> None:
        """Start, and stop when SIGTERM or SIGINT says so; in another thread than the main one, when `stop` is called.

        Raises `NodeFailed` if the node ended because one of its threads failed.
        """

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(wait=kind is None)
