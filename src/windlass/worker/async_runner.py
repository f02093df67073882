"""Runs `async def` handlers on one event loop in its own thread, created for the first of them."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from concurrent.futures import Future

from windlass.client.app import App
from windlass.client.context import Channel
from windlass.client.execution import arun_attempt, interrupt
from windlass.core.assignment import Assignment
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised
from windlass.worker.interrupts import Interruption, Interrupts, describe_interruption

_BY_ITSELF = Raised(Error(kind="CancelledError", message="the handler cancelled itself"))


class AsyncRunner:
    """An event loop that outlives the attempts, so that what handlers keep on it (sessions, pools) does too."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._making = threading.Lock()
        self._closing = False

    def run_attempt(self, ticket: int, app: App, assignment: Assignment, channel: Channel) -> Outcome:
        """Run one attempt on the loop, and wait for its outcome."""
        loop = self._running()
        over: Future[Outcome] = Future()
        reasons: list[Interruption] = []

        running: list[asyncio.Task[None]] = []

        async def attempt() -> None:
            running.extend(filter(None, [asyncio.current_task()]))
            try:
                over.set_result(await arun_attempt(app, assignment, channel))
            except asyncio.CancelledError:
                over.set_result(describe_interruption(reasons[-1]) if reasons else _BY_ITSELF)
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                over.set_exception(error)

        def cancel() -> None:
            """Cancel the coroutine after its first step; before it, its own `except` would not run."""
            if running:
                interrupt(running[0], reasons[-1]())
            else:
                loop.call_soon(cancel)

        def on_interrupt(error: Interruption) -> None:
            reasons.append(error)
            loop.call_soon_threadsafe(cancel)

        asyncio.run_coroutine_threadsafe(attempt(), loop)
        with self._interrupts.coroutine(ticket, on_interrupt):
            return over.result()

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
