"""Group commit: calls that come while a commit is under way share the next one.

Whoever finds nothing under way writes at once, in its own thread, whatever is pending; the others wait, and when that
commit has ended one of them writes the next. So batches form by themselves under load, no timer delays a lonely call,
and a call means what it meant alone: when it returns its tasks are durable, and a refusal reaches the one whose tasks
are refused and nobody else. A failure of the store reaches all whose tasks were in the commit.

asyncio is imported where it is used, here and in the neighbours: it is a third of what `import windlass` would cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock, get_ident
from typing import TypeAlias

from windlass.client.async_bridge import begin
from windlass.core.task import Lease, NewTask
from windlass.errors import CommitUnknown, InvalidTask, KeyConflict, NotAllowed, QueueFull
from windlass.stores.protocol import Receipt

MAX_TASKS = 2_000
"""About how many tasks one commit takes; a single call with more goes alone."""

REFUSALS = (InvalidTask, KeyConflict, QueueFull, NotAllowed)
"""Errors that are about the tasks: the next call's tasks may well be taken."""

Write: TypeAlias = Callable[[Sequence[NewTask], Lease | None], list[Receipt]]


class _Call:
    """One caller's tasks on their way."""

    __slots__ = ("answered", "failure", "future", "in_charge", "is_async", "lease", "receipts", "tasks")

    def __init__(self, tasks: Sequence[NewTask], lease: Lease | None, *, is_async: bool) -> None:
        self.tasks = tasks
        self.lease = lease
        self.is_async = is_async
        self.future: Future[bool] | None = None
        """Where the caller waits: for an answer, or to be put in charge."""
        self.in_charge = False
        """Whether its caller is to write, and then to hand over."""
        self.answered = False
        self.receipts: list[Receipt] = []
        self.failure: BaseException | None = None

    def answer(self, receipts: list[Receipt], failure: BaseException | None) -> None:
        self.receipts, self.failure, self.answered = receipts, failure, True
        if self.future is not None and not self.future.done():
            self.future.set_result(True)

    def verdict(self) -> list[Receipt]:
        if self.failure is not None:
            raise self.failure
        return self.receipts


class Committer:
    """All submits of one app that are not in somebody's own transaction."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = Lock()
        self._pending: deque[_Call] = deque()
        self._leader = 0
        """The thread that writes now; 0 when none does, -1 while one is being found."""

    def submit(self, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
        """Submit, and wait until it is durable or refused."""
        call = _Call(tasks, lease, is_async=False)
        if self._leader == get_ident():
            return self._write(tasks, lease)  # a submit inside of a submit, as from a signal handler
        try:
            if not self._take_charge(call) and call.future is not None:
                call.future.result()
            if call.in_charge:
                self._lead(call)
        except BaseException:
            self._leave(call)
            raise
        return call.verdict()

    async def asubmit(self, tasks: Sequence[NewTask], lease: Lease | None = None) -> list[Receipt]:
        """The same for a coroutine: a thread of ours writes if nobody else does. Cancelled in time, nothing is."""
        import asyncio

        call = _Call(tasks, lease, is_async=True)
        with self._lock:
            future: Future[bool] = Future()
            call.future = future
            self._pending.append(call)
            if idle := self._leader == 0:
                self._leader = -1
        if idle:
            self._let_lead()
        await asyncio.wrap_future(future)
        return call.verdict()

    def _take_charge(self, call: _Call) -> bool:
        """Whether nothing is under way, so that the caller writes; otherwise it waits for its turn."""
        with self._lock:
            if self._leader == 0:
                self._leader, call.in_charge = get_ident(), True
            else:
                call.future = Future()
                self._pending.append(call)
            return call.in_charge

    def _leave(self, call: _Call) -> None:
        """Its caller was interrupted: it must not be written later, nor be left in charge."""
        if call.future is not None:
            call.future.cancel()
        if call.in_charge:
            self._hand_over(call)

    def _lead(self, own: _Call | None = None) -> None:
        """Write once: one's own tasks and as many of the pending as fit; then leave it to the next."""
        calls: list[_Call] = []
        try:
            with self._lock:
                self._leader = get_ident()
                calls = self._take(own)
            self._flush(calls)
        except BaseException as death:
            lost = CommitUnknown(f"the thread that wrote these tasks was stopped ({type(death).__name__})")
            for call in calls:
                if not call.answered:
                    call.answer([], lost)
            raise
        finally:
            self._hand_over(own)

    def _take(self, own: _Call | None) -> list[_Call]:
        calls = [] if own is None else [own]
        size = sum(len(call.tasks) for call in calls)
        while self._pending:
            call = self._pending[0]
            if calls and (size + len(call.tasks) > MAX_TASKS or call.lease != calls[0].lease):
                break
            self._pending.popleft()
            # False when its caller has left meanwhile.
            if call.future is not None and call.future.set_running_or_notify_cancel():
                calls.append(call)
                size += len(call.tasks)
        return calls

    def _flush(self, calls: list[_Call]) -> None:
        """Write these calls' tasks in one commit. If one is refused, halve, so that each gets its own verdict."""
        if not calls:
            return
        try:
            tasks = calls[0].tasks if len(calls) == 1 else [task for call in calls for task in call.tasks]
            receipts = self._write(tasks, calls[0].lease)
        except REFUSALS as refusal:
            if len(calls) == 1:
                calls[0].answer([], refusal)
                return
            middle = len(calls) // 2
            self._flush(calls[:middle])
            self._flush(calls[middle:])
        except Exception as failure:  # noqa: BLE001 - whatever it is, each caller raises it
            for call in calls:
                call.answer([], failure)
        else:
            end = 0
            for call in calls:
                start, end = end, end + len(call.tasks)
                call.answer(receipts[start:end], None)

    def _hand_over(self, own: _Call | None) -> None:
        """Let one of those who wait write next: a thread that waits anyway, else one of ours."""
        with self._lock:
            if own is not None:
                own.in_charge = False
            while self._pending and (future := self._pending[0].future) is not None and future.cancelled():
                self._pending.popleft()
            if not self._pending:
                self._leader = 0
                return
            self._leader = -1
            call = self._pending[0]
            if not call.is_async and call.future is not None and call.future.set_running_or_notify_cancel():
                self._pending.popleft()
                call.in_charge = True
                call.future.set_result(True)
                return
        self._let_lead()

    def _let_lead(self) -> None:
        try:
            begin(self._lead)
        except RuntimeError:  # No thread is to be had, as when the interpreter is about to end.
            self._lead()
