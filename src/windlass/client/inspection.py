"""What a program reads and changes in addition to its own tasks.

These are `app.tasks`, `app.dead`, `app.queues`, `app.pools` and `app.nodes`. Everything goes through `operations`, as
for the command line and HTTP: secrets are removed, and every change writes an audit entry with its author (`by`, by
default the account of the process) and its reason (`why`). A handler may search, cancel and retry tasks of its own
tenant; all other calls raise `NotAllowed` there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Protocol, TypedDict, Unpack
from uuid import UUID

from windlass.client.app_store import AppStore, is_worker
from windlass.client.async_bridge import in_thread
from windlass.client.inspection_views import (
    DeadGroup,
    NodeInfo,
    PoolInfo,
    QueueInfo,
    view_group,
    view_node,
    view_pool,
    view_queue,
)
from windlass.client.notebook import html_list
from windlass.client.task_view import Task, view_task
from windlass.core.filter import Query
from windlass.core.names import check_type
from windlass.core.ordering import Strategy
from windlass.core.query import parse
from windlass.core.times import Duration, duration
from windlass.errors import InvalidTask, NotAllowed
from windlass.operations import dead_letters, nodes, pools, queues, tasks
from windlass.operations.access import Access
from windlass.operations.author import Author, user_name
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.canary import run_canary
from windlass.operations.dead_letters import GroupRetried
from windlass.operations.nodes import GRACE
from windlass.operations.paging import pages
from windlass.operations.tasks import is_plain
from windlass.stores.protocol import Cursor, Filter, Page

MAX_COUNTED = 1_000_000
"""How many tasks one count looks at."""
PAGE = 100
"""How many tasks are read at a time."""
SHOWN = 20
"""How many tasks a notebook shows."""


class Named(Protocol):
    """A handler of an app."""

    @property
    def name(self) -> str: ...


class Tasks:
    """`app.tasks`: the tasks of the store."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def find(
        self,
        query: str = "",
        *,
        queue: str | None = None,
        tenant: str | None = None,
        workflow: str | None = None,
        handler: str | Named | None = None,
    ) -> TaskSearch:
        """Search tasks with a filter, such as "state:failed error~timeout". Nothing is read before it is used.

        >>> for task in app.tasks.find("state:failed error~timeout", handler=send):
        ...     ...
        >>> app.tasks.find("state:failed queue:mail").retry(why="the server is back")
        """
        check_type("query", query, str, 'pass a filter, such as "state:failed"')
        name = handler if isinstance(handler, str | None) else handler.name
        conditions: Query | None = parse(query) if query.strip() else None
        return TaskSearch(
            self._app_store, Filter(queue=queue, tenant=tenant, workflow=workflow, handler=name, query=conditions)
        )

    def get(self, id: UUID | str) -> Task:
        """Return one task without its secrets. Eight digits from the beginning or the end of the id are enough."""
        return view_task(tasks.look_up(_access(self._app_store, "app.tasks.get"), str(id)))


class TaskSearch:
    """The tasks that match a filter, newest first, read page by page while a program iterates over them."""

    def __init__(self, app_store: AppStore, filter: Filter) -> None:
        self._app_store = app_store
        self._filter = filter

    def __iter__(self) -> Iterator[Task]:
        for page in pages(self._read()):
            yield from map(view_task, page.tasks)

    async def __aiter__(self) -> AsyncIterator[Task]:
        read, after = self._read(), None
        while True:
            page = await in_thread(read, after)
            for task in page.tasks:
                yield view_task(task)
            after = page.after
            if after is None:
                return

    def count(self) -> int:
        """Count the tasks that match, up to a million of them."""
        store = self._app_store.store
        if is_worker():
            return store.count(self._filter).tasks
        query = self._filter.query
        if query is None or is_plain(query):
            return store.count(self._filter, limit=MAX_COUNTED).tasks
        return sum(1 for _ in islice(self, MAX_COUNTED))

    def cancel(self, *, why: str = "", by: str | None = None) -> int:
        """Cancel those that are unfinished, and return how many. Running tasks are asked to stop."""
        return self._apply(Verb.CANCEL, why, by)

    def retry(self, *, why: str = "", by: str | None = None) -> int:
        """Run those that failed, expired or were cancelled again, and return how many."""
        return self._apply(Verb.RETRY, why, by)

    def purge(self, *, why: str = "", by: str | None = None) -> int:
        """Delete those that are finished, and return how many."""
        return self._apply(Verb.PURGE, why, by)

    async def acount(self) -> int:
        """Async version of `count`."""
        return await in_thread(self.count)

    async def acancel(self, *, why: str = "", by: str | None = None) -> int:
        """Async version of `cancel`."""
        return await in_thread(self.cancel, why=why, by=by)

    async def aretry(self, *, why: str = "", by: str | None = None) -> int:
        """Async version of `retry`."""
        return await in_thread(self.retry, why=why, by=by)

    async def apurge(self, *, why: str = "", by: str | None = None) -> int:
        """Async version of `purge`."""
        return await in_thread(self.purge, why=why, by=by)

    def _repr_html_(self) -> str:
        found = list(islice(self, SHOWN + 1))
        rows = [(task.id, task.state.value, task.handler, task.queue, task.submitted) for task in found[:SHOWN]]
        title = f"The newest {SHOWN} tasks" if len(found) > SHOWN else f"{len(found)} tasks"
        return html_list(title, ("id", "state", "handler", "queue", "submitted"), rows)

    def _read(self) -> _ReadPage:
        """Return a function that reads the page after a cursor."""
        store = self._app_store.store
        if is_worker():  # The node limits it to the tenant of the running task.
            return lambda after: store.find(self._filter, limit=PAGE, after=after)
        access = Access(store)
        return lambda after: tasks.find(access, self._filter, limit=PAGE, after=after)

    def _apply(self, verb: Verb, why: str, by: str | None) -> int:
        store = self._app_store.store
        if is_worker():
            if verb is Verb.PURGE:
                raise _refused("app.tasks.find(...).purge")
            if self._filter == Filter():
                raise InvalidTask("The filter is empty and would match every task. Add a condition such as queue:mail.")
            if verb is Verb.CANCEL:
                return store.cancel(self._filter, reason=why or "cancelled by a handler")
            return store.retry(self._filter)
        action = BulkAction(Access(store), verb, self._filter, _author(why, by))
        action.count()
        return action.run()


class _ReadPage(Protocol):
    def __call__(self, after: Cursor | None, /) -> Page: ...


class DeadLetters:
    """`app.dead`: the failed tasks, grouped by error."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def __iter__(self) -> Iterator[DeadGroup]:
        return iter(self.groups())

    def groups(self, *, queue: str | None = None, tenant: str | None = None) -> list[DeadGroup]:
        """Return the groups of failed tasks with the same error, the largest first."""
        return [view_group(each) for each in dead_letters.get_all(self._access, queue=queue, tenant=tenant)]

    def get(self, group: str) -> DeadGroup:
        """Return one group by its id, or by at least two digits from its beginning."""
        return view_group(dead_letters.get(self._access, group))

    def tasks(self, group: str | DeadGroup, *, limit: int = 100) -> list[Task]:
        """Return the newest tasks of a group."""
        access = self._access
        return [view_task(task) for task in dead_letters.letters(access, _group(access, group), limit=limit)]

    def retry(self, group: str | DeadGroup, *, why: str = "", by: str | None = None) -> GroupRetried:
        """Retry every task of a group, and the tasks that were cancelled because of them."""
        access = self._access
        return dead_letters.retry(access, _group(access, group), _author(why, by))

    def canary(
        self, group: str | DeadGroup, *, patience: Duration = "5m", why: str = "", by: str | None = None
    ) -> GroupRetried:
        """Retry one task of a group, then ten, then all; stop if the error is still there. Wait for each step.

        `patience` is how long a step may take. `fixed` of the answer says whether all of them are retried.
        """
        access, seconds = self._access, duration(patience, "patience").total_seconds()
        return run_canary(access, _group(access, group), seconds, _author(why, by), lambda _: None)

    def drop(self, group: str | DeadGroup, *, why: str = "", by: str | None = None) -> int:
        """Delete every task of a group, and return how many."""
        access = self._access
        return dead_letters.drop(access, _group(access, group), _author(why, by))

    @property
    def _access(self) -> Access:
        return _access(self._app_store, "app.dead")

    def _repr_html_(self) -> str:
        rows = [(each.id, each.count, each.error.kind, ", ".join(each.handlers), each.last) for each in self.groups()]
        return html_list("Failed tasks by error", ("group", "tasks", "error", "handlers", "last"), rows)


class QueueSettings(TypedDict, total=False):
    """The settings that `app.queues.set` changes."""

    strategy: Strategy | Literal["priority", "deadline", "aging", "fifo"]
    horizon: Duration
    """For `deadline` and `aging`: the deadline of a task that has none, counted from when it is due."""
    step: Duration
    """For `aging`: how much waiting one point of priority is worth."""
    max_waiting: int | None
    weight: int
    fair: bool


class Queues:
    """`app.queues`: the queues of the store and their settings."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def __iter__(self) -> Iterator[QueueInfo]:
        return iter(self.list())

    def list(self) -> Sequence[QueueInfo]:
        """Return every queue that has settings or tasks, by name."""
        return [view_queue(each) for each in queues.get_all(self._access)]

    def get(self, name: str) -> QueueInfo:
        """Return one queue. Raise `UnknownQueue` if it has no settings and no tasks."""
        return view_queue(queues.get(self._access, name))

    def pause(
        self,
        name: str,
        *,
        lasts: Duration | None = None,
        create: bool = False,
        why: str = "",
        by: str | None = None,
    ) -> QueueInfo:
        """Start no more tasks of a queue, for some time or until it is resumed; running tasks continue.

        Without `create`, a name that nothing uses is refused.
        """
        return view_queue(queues.pause(self._access, name, _author(why, by), lasts=lasts, create=create))

    def resume(self, name: str, *, why: str = "", by: str | None = None) -> QueueInfo:
        """Start tasks of a queue again."""
        return view_queue(queues.resume(self._access, name, _author(why, by)))

    def set(
        self,
        name: str,
        *,
        create: bool = False,
        why: str = "",
        by: str | None = None,
        **settings: Unpack[QueueSettings],
    ) -> QueueInfo:
        """Change settings of a queue; the others stay as they are. Without `create`, an unknown name is refused.

        >>> app.queues.set("mail", max_waiting=10_000, strategy="deadline", create=True)
        """
        given = {field: _queue_setting(field, value) for field, value in settings.items()}
        if not given:
            raise InvalidTask(f"No setting of queue {name!r} is given. Use some of {', '.join(_QUEUE_SETTINGS)}.")
        return view_queue(queues.change(self._access, name, given, _author(why, by), create=create))

    @property
    def _access(self) -> Access:
        return _access(self._app_store, "app.queues")

    def _repr_html_(self) -> str:
        rows = [(each.name, *each.numbers(), "paused" if each.paused else "") for each in self.list()]
        return html_list("Queues", ("queue", "runnable", "running", "failed", "notes"), rows)


_QUEUE_SETTINGS = tuple(QueueSettings.__annotations__)


def _queue_setting(field: str, value: Any) -> Any:
    if field not in _QUEUE_SETTINGS:
        raise InvalidTask(f"{field} is not a setting of a queue. Use some of {', '.join(_QUEUE_SETTINGS)}.")
    if field in ("horizon", "step"):
        return duration(value, field)
    if field == "strategy" and isinstance(value, str):
        try:
            return Strategy(value)
        except ValueError:
            raise InvalidTask(f"strategy={value!r} is unknown. Use one of {', '.join(Strategy)}.") from None
    return value


class Pools:
    """`app.pools`: the pools of all nodes and their sizes."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def __iter__(self) -> Iterator[PoolInfo]:
        return iter(self.list())

    def list(self) -> Sequence[PoolInfo]:
        """Return every pool that a node has or had, by name."""
        return [view_pool(each) for each in pools.get_all(self._access)]

    def get(self, name: str) -> PoolInfo:
        """Return one pool. Raise `UnknownPool` if no node has or had it."""
        return view_pool(pools.get(self._access, name))

    def set(
        self,
        name: str,
        min: int,
        max: int | None = None,
        *,
        lasts: Duration | None = "1h",
        why: str = "",
        by: str | None = None,
    ) -> PoolInfo:
        """Set the size of a pool over all nodes, or a range of sizes, for some time; None for until it is resumed."""
        return view_pool(pools.set_size(self._access, name, min, max, author=_author(why, by), lasts=lasts))

    def tune(self, name: str, settings: Mapping[str, Any], *, why: str = "", by: str | None = None) -> PoolInfo:
        """Change settings of a pool while it runs, such as {"wait": "2s", "max": 12}. None restores a setting."""
        return view_pool(pools.tune(self._access, name, settings, author=_author(why, by)))

    def freeze(self, name: str, *, lasts: Duration | None = None, why: str = "", by: str | None = None) -> PoolInfo:
        """Keep the size that a pool has now, for some time or until it is resumed."""
        return view_pool(pools.freeze(self._access, name, author=_author(why, by), lasts=lasts))

    def pause(self, name: str, *, why: str = "", by: str | None = None) -> PoolInfo:
        """Set a pool to 0 workers until it is resumed: running tasks end, nothing new starts."""
        return view_pool(pools.pause(self._access, name, author=_author(why, by)))

    def resume(self, name: str, *, why: str = "", by: str | None = None) -> PoolInfo:
        """Let a pool size itself again: remove a pause and a set size."""
        return view_pool(pools.resume(self._access, name, author=_author(why, by)))

    @property
    def _access(self) -> Access:
        return _access(self._app_store, "app.pools")

    def _repr_html_(self) -> str:
        heads = ("pool", "workers", "target", "bounds", "running", "latest decision")
        rows = [
            (each.name, each.ready, each.target, f"{each.min} to {each.max}", each.running, each.sentence)
            for each in self.list()
        ]
        return html_list("Pools", heads, rows)


class Nodes:
    """`app.nodes`: the nodes and their worker processes."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self.list())

    def list(self) -> Sequence[NodeInfo]:
        """Return the nodes that are alive and those that ended in the last day, newest first."""
        return [view_node(each) for each in nodes.get_all(self._access)]

    def drain(self, node: str | UUID, worker: int | None = None, *, why: str = "", by: str | None = None) -> NodeInfo:
        """Let a worker finish what it runs and exit; without a number, the whole node. Return the node.

        A node is named by its name or its session. It follows within a second or two. A worker is replaced if its pool
        still wants as many.
        """
        return view_node(nodes.drain(self._access, str(node), worker, author=_author(why, by)))

    def stop(
        self,
        node: str | UUID,
        worker: int | None = None,
        *,
        grace: Duration = GRACE,
        why: str = "",
        by: str | None = None,
    ) -> NodeInfo:
        """Drain a worker or a whole node, and stop and release what still runs after `grace`. Return the node."""
        return view_node(nodes.stop(self._access, str(node), worker, author=_author(why, by), grace=grace))

    @property
    def _access(self) -> Access:
        return _access(self._app_store, "app.nodes")

    def _repr_html_(self) -> str:
        rows = [(each.name, each.session, len(each.workers), "lost" if each.lost else "") for each in self.list()]
        return html_list("Nodes", ("node", "session", "workers", "notes"), rows)


def retry_task(app_store: AppStore, id: Any, why: str, by: str | None) -> bool:
    """Retry one task, and return whether it had ended badly."""
    store = app_store.store
    if is_worker():
        return store.retry([id]) > 0
    return tasks.retry(Access(store), id, _author(why, by)).tasks > 0


def _access(app_store: AppStore, what: str) -> Access:
    if is_worker():
        raise _refused(what)
    return Access(app_store.store)


def _refused(what: str) -> NotAllowed:
    return NotAllowed(
        f"{what} does not work inside a handler, which may read and change only tasks of its own tenant. Use it in "
        "another program, or use the command line or the HTTP API."
    )


def _author(why: str, by: str | None) -> Author:
    return Author(by or user_name(), why)


def _group(access: Access, group: str | DeadGroup) -> Any:
    return dead_letters.get(access, group if isinstance(group, str) else group.id)
