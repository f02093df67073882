"""The interface of a node inside a program, as `app.worker` returns it, and its options.

`windlass.worker.embedded` implements it. That package is built on apps, so an app imports it only when it is called.
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
    """The options of a node inside a program. The defaults are those of `windlass worker`."""

    queues: Sequence[str]
    """The queues to serve, by their weights. The default is `default`."""
    size: int | None
    """How many workers; None sizes the pool automatically."""
    threads: int
    """How many tasks a worker runs at once. The default is 1, except for `async def` handlers."""
    async_tasks: int
    """With one thread: how many tasks of `async def` handlers a worker runs at once. The default is 32."""
    pools: Sequence[PoolSettings]
    """Several pools, instead of `queues`, `size` and `threads`."""
    name: str
    """The name of the node. The default is the host name and the process id."""
    tags: Sequence[str]
    """The tags of this machine, for tasks with `requires`."""
    drain_timeout: timedelta | float | str | None
    """How long to wait for running tasks before they are stopped and released; None for as long as they take."""
    session_ttl: timedelta | float | str
    """How long after its last renewal the session of the node is lost."""
    hide_store_url: bool
    """Whether the variables that contain the URL of the store are removed from the environment of workers."""
    retention: timedelta | float | str
    """How long finished tasks are kept. The default is that of `windlass.yaml`, or 7 days."""
    app_path: str
    """The import path of the app, as in `shop:app`. Needed only if it cannot be determined."""
    on_event: Callable[[Event], None]
    """Called with every event of the node, in the thread in which it happens. It must be quick."""


class WorkerNode(ABC):
    """A node in this program. It can be started once. Leaving the `with` block stops it.

    >>> with app.worker(queues=["mail"], size=2) as node:
    ...     send.enqueue("a@b.c").result()

    Leaving the block normally drains the node. Leaving it by an exception stops running tasks and releases them.
    """

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether the node was started and has not ended."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """Why the node failed; None if it did not."""

    @abstractmethod
    def start(self) -> None:
        """Import the app in another process and start working.

        Raise `AppBroken` if it cannot be imported, or if the import does not register every handler of this program.
        """

    @abstractmethod
    def stop(self, wait: bool = True, timeout: float | None = None) -> None:
        """Stop the node, and return when its workers are gone. Stopping twice does nothing.

        With `wait`, running tasks may finish, for `timeout` seconds or the node's `drain_timeout`. Without it, or when
        the time is up, they are stopped and released, which does not count as an attempt.
        """

    @abstractmethod
    def join(self, timeout: float | None = None) -> bool:
        """Wait until the node has ended, for any reason. Return True if it has."""

    @abstractmethod
    def run(self) -> None:
        """Start the node and run it until SIGTERM or SIGINT. Outside the main thread, run it until `stop` is called.

        Raise `NodeFailed` if the node ended because one of its threads failed.
        """

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(wait=kind is None)
