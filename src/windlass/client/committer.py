"""Group commit: calls that arrive while a commit is running share the next one.

A caller that finds no commit running writes immediately, in its own thread, everything that is pending. The others
wait; when that commit ends, one of them writes the next. So batches form under load and no timer delays a single call.
A call keeps its meaning: when it returns its tasks are durable, and a refusal reaches only the caller whose tasks are
refused. A store failure reaches every caller whose tasks were in the commit. A shared commit waits only briefly for
other transactions: calls that may have to wait for one then leave it and write their tasks themselves.

asyncio is imported where it is used, here and in the rest of this package: it is a third of the cost of
`import windlass`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from threading import Lock, get_ident
from typing import Any

from windlass.call_limits import limited_lock_wait
from windlass.client.async_bridge import in_thread, start_writer
from windlass.client.context import current_lease
from windlass.client.tracing import submit_span
from windlass.core.task import Lease, NewTask
from windlass.errors import CommitUnknown, InvalidTask, KeyBusy, KeyConflict, NotAllowed, QueueFull, WindlassError
from windlass.refused_submits import refused_submits
from windlass.stores.protocol import Receipt, Store
from windlass.wiring import acheck_connection, asubmit_in, identify_database, is_async

MAX_TASKS = 2_000
"""Maximum number of tasks in a shared commit. A call with more tasks gets a commit of its own."""

LOCK_WAIT = 0.2
"""How many seconds a commit waits for a lock of another transaction, if some of its calls may have to wait for one."""

REFUSALS = (InvalidTask, KeyConflict, QueueFull, NotAllowed)
"""Errors caused by the tasks of one call. The tasks of the other calls may still be accepted."""

_NOT_TRACED: nullcontext[None] = nullcontext()


class _Call:
    """One call of `submit`, until it has an answer."""

    __slots__ = ("alone", "answered", "failure", "future", "is_async", "leads", "lease", "receipts", "tasks")

    def __init__(self, tasks: Sequence[NewTask], lease: Lease | None, *, is_async: bool) -> None:
        self.tasks = tasks
        self.lease = lease
        self.is_async = is_async
        self.future: Future[bool] | None = None
        """The caller waits on it for an answer, or for its turn to lead."""
        self.leads = False
        """True while the caller must write the next commit and then hand over."""
        self.alone = False
        """True if the caller must write its tasks itself, because they may have to wait for another transaction."""
        self.answered = False
        self.receipts: list[Receipt] = []
        self.failure: BaseException | None = None

    @property
    def may_wait(self) -> bool:
        """True if its tasks may have to wait for another transaction: by a key, a prerequisite or a workflow."""
        return self.lease is not None or any(
            task.key is not None or task.id is not None or task.unique or task.prerequisites or task.workflow
            for task in self.tasks
        )

    def leave(self) -> None:
        """Let the caller write its tasks itself."""
        self.alone = True
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def answer(self, receipts: list[Receipt], failure: BaseException | None) -> None:
        self.receipts, self.failure, self.answered = receipts, failure, True
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def result(self) -> list[Receipt]:
        if self.failure is not None:
            raise self.failure
        return self.receipts


class Committer:
    """Submits the tasks of one app, in shared commits or in a caller's own transaction."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self.is_direct = False
        """Submit in the caller's thread without group commit, for tests that run tasks inside the call."""
        self._store = store
        self.reset()

    def reset(self) -> None:
        """Forget all calls, as a forked child must."""
        self._lock = Lock()
        self._pending: deque[_Call] = deque()
        self._leader = 0
        """The id of the thread that writes; 0 if there is none, -1 while the next one is being chosen."""

    def submit(self, tasks: Sequence[NewTask], conn: Any = None) -> list[Receipt]:
        """Submit tasks and wait until they are durable, or join the transaction of the caller's `conn`."""
        span = submit_span(tasks)
        try:
            with span or _NOT_TRACED:
                tasks = tasks if span is None else span.tasks
                if _asks_for_admission(tasks):
                    _check_admission(self._store(), tasks)
                if conn is None and not self.is_direct:
                    receipts = self._commit(tasks, current_lease())
                else:
                    receipts = self._store().submit(tasks, conn=conn, lease=current_lease())
                return receipts if span is None else span.record(receipts)
        except WindlassError as error:
            refused_submits.count(error)
            raise

    async def asubmit(self, tasks: Sequence[NewTask], conn: Any = None) -> list[Receipt]:
        """Submit tasks from a coroutine. A synchronous `conn` is used in this thread, to which it may belong."""
        span = submit_span(tasks)
        try:
            with span or _NOT_TRACED:
                tasks = tasks if span is None else span.tasks
                if _asks_for_admission(tasks):
                    await in_thread(lambda: _check_admission(self._store(), tasks))
                if conn is None and not self.is_direct:
                    receipts = await self._acommit(tasks, current_lease())
                elif conn is not None and is_async(conn) and not self.is_direct:
                    receipts = await self._ajoin(tasks, conn, current_lease())
                else:
                    receipts = self._store().submit(tasks, conn=conn, lease=current_lease())
                return receipts if span is None else span.record(receipts)
        except WindlassError as error:
            refused_submits.count(error)
            raise

    async def _ajoin(self, tasks: Sequence[NewTask], conn: Any, lease: Lease | None) -> list[Receipt]:
        """Join the transaction of an asynchronous connection. With a lease, the database that granted it accepts it."""
        import asyncio

        if lease is None:
            expected = await asyncio.to_thread(lambda: identify_database(self._store()))
            if expected is not None:
                await acheck_connection(conn, expected)
        return await asubmit_in(conn, tasks, lease)

    def _commit(self, tasks: Sequence[NewTask], lease: Lease | None) -> list[Receipt]:
        call = _Call(tasks, lease, is_async=False)
        if self._leader == get_ident():
            return self._store().submit(tasks, lease=lease)  # A submit inside a submit, as from a signal handler.
        try:
            if not self._try_to_lead(call) and call.future is not None:
                call.future.result()
            if call.leads:
                self._lead(call)
            if call.alone:
                return self._store().submit(tasks, lease=lease)
        except BaseException:
            self._abandon(call)
            raise
        return call.result()

    async def _acommit(self, tasks: Sequence[NewTask], lease: Lease | None) -> list[Receipt]:
        """Commit for a coroutine; a thread of ours writes if no caller does. Cancelling early writes nothing."""
        import asyncio

        call = _Call(tasks, lease, is_async=True)
        with self._lock:
            future: Future[bool] = Future()
            call.future = future
            self._pending.append(call)
            if idle := self._leader == 0:
                self._leader = -1
        if idle:
            self._lead_in_thread()
        await asyncio.wrap_future(future)
        if call.alone:
            return await in_thread(lambda: self._store().submit(tasks, lease=lease))
        return call.result()

    def _try_to_lead(self, call: _Call) -> bool:
        """Make the caller the leader and return True if no commit is running; otherwise queue the call."""
        with self._lock:
            if self._leader == 0:
                self._leader, call.leads = get_ident(), True
            else:
                call.future = Future()
                self._pending.append(call)
            return call.leads

    def _abandon(self, call: _Call) -> None:
        """Withdraw an interrupted call: it must not be written later, and it must not stay the leader."""
        if call.future is not None:
            call.future.cancel()
        if call.leads:
            self._hand_over(call)

    def _lead(self, own: _Call | None = None) -> None:
        """Write one commit with the own call and as many pending calls as fit, then hand over."""
        calls: list[_Call] = []
        try:
            with self._lock:
                self._leader = get_ident()
                calls = self._take(own)
            self._flush(calls)
        except BaseException as death:
            lost = CommitUnknown(
                f"The thread that wrote these tasks was stopped ({type(death).__name__}). Look the tasks up by key."
            )
            for call in calls:
                if not call.answered and not call.alone:
                    call.answer([], lost)
            raise
        finally:
            self._hand_over(own)

    def _take(self, own: _Call | None) -> list[_Call]:
        calls, size = ([], 0) if own is None else ([own], len(own.tasks))
        while self._pending:
            call = self._pending[0]
            if calls and (size + len(call.tasks) > MAX_TASKS or call.lease != calls[0].lease):
                break
            self._pending.popleft()
            # False if the caller has given up in the meantime.
            if call.future is not None and call.future.set_running_or_notify_cancel():
                calls.append(call)
                size += len(call.tasks)
        return calls

    def _flush(self, calls: list[_Call]) -> None:
        """Write the tasks of these calls in one commit. On a refusal, split in half to find the call it belongs to."""
        if not calls:
            return
        tasks = calls[0].tasks if len(calls) == 1 else [task for call in calls for task in call.tasks]
        may_wait = [call for call in calls if call.may_wait]
        try:
            with limited_lock_wait(LOCK_WAIT if may_wait else None):
                receipts = self._store().submit(tasks, lease=calls[0].lease)
        except KeyBusy as busy:
            if may_wait:
                for call in may_wait:
                    call.leave()
                self._flush([call for call in calls if not call.alone])
                return
            for call in calls:
                call.answer([], busy)
        except REFUSALS as refusal:
            if len(calls) == 1:
                calls[0].answer([], refusal)
                return
            middle = len(calls) // 2
            self._flush(calls[:middle])
            self._flush(calls[middle:])
        except Exception as failure:  # noqa: BLE001 - each caller raises it
            for call in calls:
                call.answer([], failure)
        else:
            end = 0
            for call in calls:
                start, end = end, end + len(call.tasks)
                call.answer(receipts[start:end], None)

    def _hand_over(self, own: _Call | None) -> None:
        """Choose the next leader: a waiting thread if the next call has one, else a thread of ours."""
        with self._lock:
            if own is not None:
                own.leads = False
            while self._pending and (future := self._pending[0].future) is not None and future.cancelled():
                self._pending.popleft()
            if not self._pending:
                self._leader = 0
                return
            self._leader = -1
            call = self._pending[0]
            if not call.is_async and call.future is not None and call.future.set_running_or_notify_cancel():
                self._pending.popleft()
                call.leads = True
                call.future.set_result(True)
                return
        self._lead_in_thread()

    def _lead_in_thread(self) -> None:
        try:
            start_writer(self._lead)
        except RuntimeError:  # No thread can be started, for example at interpreter shutdown.
            self._lead()


def _asks_for_admission(tasks: Sequence[NewTask]) -> bool:
    return tasks[0].admit is not None if len(tasks) == 1 else any(task.admit is not None for task in tasks)


def _check_admission(store: Store, tasks: Sequence[NewTask]) -> None:
    ask_node: Callable[[Sequence[NewTask]], None] | None = getattr(store, "check_admission", None)
    if ask_node is not None:  # In a worker: a handler may not read everything that the check needs.
        ask_node(tasks)
        return
    from windlass.operations.admission import check_admission  # Rarely needed, and slow to import.

    check_admission(store, tasks)
