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

    When an attempt has ended, the loop reports its outcome and starts the next attempt itself, if there is one at once.
    To pass each one from thread to thread takes 80 µs, longer than many of them run.
    """

    def __init__(
        self,
        app: App,
        channel: Channel,
        interrupts: Interrupts,
        report: Callable[[Assignment, Outcome], None],
        take_next: Callable[[], Assignment | None],
    ) -> None:
        self._app = app
        self._channel = channel
        self._interrupts = interrupts
        self._report = report
        self._take_next = take_next
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._making = threading.Lock()
        self._closing = False

    def handles(self, assignment: Assignment) -> bool:
        """Return True if the assignment is for an `async def` handler."""
        handler = self._app.handlers.get(assignment.handler)
        return handler is not None and handler.is_async

    def run(self, assignment: Assignment) -> Assignment | None:
        """Run an attempt on the loop, and then the next ones as long as they are there and `async def` too.

        Return an assignment that was taken and is not; None if there was no next one.
        """
        loop = self._running()
        over: SimpleQueue[Assignment | BaseException | None] = SimpleQueue()
        loop.call_soon_threadsafe(self._start, loop, assignment, copy_context(), over)
        left = over.get()
        if isinstance(left, BaseException):
            raise left
        return left

    def _start(
        self,
        loop: asyncio.AbstractEventLoop,
        assignment: Assignment,
        context: Context,
        over: SimpleQueue[Assignment | BaseException | None],
    ) -> None:
        """Start an attempt as a task of its own, with a copy of the context. Called on the loop."""
        reasons: list[Interruption] = []
        running: list[asyncio.Task[None]] = []

        async def attempt() -> None:
            running.append(task)
            try:
                outcome = await arun_attempt(self._app, assignment, self._channel)
            except asyncio.CancelledError:
                outcome = describe_interruption(reasons[-1]) if reasons else _BY_ITSELF
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                over.put(error)
                return
            try:
                self._interrupts.remove_coroutine(assignment.ticket)
                self._report(assignment, outcome)
                following = self._take_next()
                if following is not None and self.handles(following):
                    self._start(loop, following, context, over)
                else:
                    over.put(following)
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                over.put(error)

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
