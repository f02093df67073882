"""Runs `async def` handlers on one event loop in its own thread, created for the first of them."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue

from windlass.client.app import App
from windlass.client.context import Channel
from windlass.client.execution import arun_attempt, interrupt
from windlass.core.assignment import Assignment
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised
from windlass.worker.interrupts import Interruption, Interrupts, describe_interruption

_BY_ITSELF = Raised(Error(kind="CancelledError", message="the handler cancelled itself"))


class AsyncRunner:
    """An event loop that outlives the attempts, so that what handlers keep on it (sessions, pools) does too.

    While attempts run, the loop takes and starts the next ones itself, as long as it has free slots. To pass each one
    from thread to thread takes 80 µs, longer than many of them run.
    """

    def __init__(
        self,
        app: App,
        channel: Channel,
        interrupts: Interrupts,
        report: Callable[[Assignment, Outcome], None],
        take_next: Callable[[], Assignment | None],
        *,
        slots: int = 1,
        tickets: int = -1,
    ) -> None:
        """`slots` is how many attempts may run at once; `tickets` is a descriptor that is readable when more come."""
        self._app = app
        self._channel = channel
        self._interrupts = interrupts
        self._report = report
        self._take_next = take_next
        self._slots = slots
        self._tickets = tickets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._making = threading.Lock()
        self._closing = False

    def handles(self, assignment: Assignment) -> bool:
        """Return True if the assignment is for an `async def` handler."""
        handler = self._app.handlers.get(assignment.handler)
        return handler is not None and handler.is_async

    def run(self, assignment: Assignment) -> Assignment | None:
        """Run an attempt on the loop, and others that come meanwhile if they are `async def` too, until none is left.

        Return an assignment that was taken and could not start there; None if there was none.
        """
        loop = self._running()
        batch = _Batch(self, loop, copy_context())
        loop.call_soon_threadsafe(batch.begin, assignment)
        left = batch.over.get()
        if isinstance(left, BaseException):
            raise left
        return left

    def take_next(self) -> Assignment | None:
        """Take the next assignment if it is there."""
        return self._take_next()

    @property
    def slots(self) -> int:
        """How many attempts may run at once."""
        return self._slots

    @property
    def tickets(self) -> int:
        """A descriptor that is readable when another assignment may be taken."""
        return self._tickets

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        assignment: Assignment,
        context: Context,
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Start an attempt as a task of its own, with a copy of the context. Called on the loop.

        `ended` is called after its outcome was reported, or with the error that prevented that.
        """
        reasons: list[Interruption] = []
        running: list[asyncio.Task[None]] = []

        async def attempt() -> None:
            running.append(task)
            try:
                outcome = await arun_attempt(self._app, assignment, self._channel)
            except asyncio.CancelledError:
                outcome = describe_interruption(reasons[-1]) if reasons else _BY_ITSELF
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                ended(error)
                return
            try:
                self._interrupts.remove_coroutine(assignment.ticket)
                self._report(assignment, outcome)
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                ended(error)
            else:
                ended(None)

        def cancel() -> None:
            """Cancel the coroutine after its first step; before it, its own `except` would not run."""
            if running:
                interrupt(task, reasons[-1]())
            else:
                loop.call_soon(cancel)

        def on_interrupt(error: Interruption) -> None:
            reasons.append(error)
            loop.call_soon_threadsafe(cancel)

        self._interrupts.add_coroutine(assignment.ticket, on_interrupt)
        task = loop.create_task(attempt(), context=context.copy())

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        if self._loop is not None and self._thread is not None:
            self._closing = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._making:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="windlass-loop", daemon=True)
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until it is closed. If a handler stops it, it starts again."""
        try:
            while not self._closing:
                loop.run_forever()
        except BaseException:  # noqa: BLE001 - the loop is broken, for example because a handler closed its descriptors
            traceback.print_exc()
            os._exit(1)


class _Batch:
    """The attempts that run on the loop from the first one until none is left. All but `over` belongs to the loop."""

    def __init__(self, runner: AsyncRunner, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._runner, self._loop, self._context = runner, loop, context
        self._free = runner.slots
        self._left: Assignment | None = None
        """An assignment that was taken and cannot start here, or not before all others have ended."""
        self._reads_tickets = self._is_over = False
        self.over: SimpleQueue[Assignment | BaseException | None] = SimpleQueue()
        """Gets one item at the end: what is left, or an error."""

    def begin(self, assignment: Assignment) -> None:
        """Start the first attempt, and take more."""
        self._start(assignment)
        self._take_more()

    def _start(self, assignment: Assignment) -> None:
        needed = min(assignment.slots, self._runner.slots)
        self._free -= needed

        def ended(error: BaseException | None) -> None:
            self._free += needed
            if error is None:
                self._take_more()
            elif not self._is_over:
                self._end(error)

        self._runner.start(self._loop, assignment, self._context, ended)

    def _take_more(self) -> None:
        """Start what is there and fits. End when nothing runs any more."""
        if self._is_over:
            return
        try:
            self._start_next()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            self._end(error)
            return
        if self._free == self._runner.slots:
            self._end(self._left)
        else:
            self._read_tickets(self._free > 0 and self._left is None)

    def _start_next(self) -> None:
        while self._free > 0 and self._left is None:
            following = self._runner.take_next()
            if following is None:
                return
            if self._runner.handles(following) and min(following.slots, self._runner.slots) <= self._free:
                self._start(following)
            else:
                self._left = following

    def _end(self, left: Assignment | BaseException | None) -> None:
        self._is_over = True
        self._read_tickets(False)
        self.over.put(left)

    def _read_tickets(self, wanted: bool) -> None:
        if wanted == self._reads_tickets or self._runner.tickets < 0:
            return
        self._reads_tickets = wanted
        if wanted:
            self._loop.add_reader(self._runner.tickets, self._take_more)
        else:
            self._loop.remove_reader(self._runner.tickets)
