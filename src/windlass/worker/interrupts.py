"""Raises exceptions in a running handler: at its soft time limit, or when it ignores a request to stop.

The main thread is interrupted by a signal, which ends even a blocking call. Other threads get an asynchronous
exception, which is raised when they next run Python code: a blocking call there ends only by itself or with its
process. Nothing is raised while a message to the node is being sent (`shield`), or once the attempt has ended.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, TypeAlias

from windlass.client.context import Cancelled, SoftTimeout
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Stopped

_SIGNAL = signal.SIGUSR1
_RESTORED = [int(number) for number in (_SIGNAL, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)]
_signal_handler: Callable[[int], object] = import_module("_signal").getsignal
"""`signal.getsignal` without its conversion to an enum, which takes microseconds."""
Interruption: TypeAlias = "type[SoftTimeout] | type[Cancelled]"


class Interrupts:
    """The threads and coroutines that run attempts in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[int, int] = {}
        self._coroutines: dict[int, Callable[[Interruption], None]] = {}
        self._main = 0
        """The main thread, if it runs handlers."""
        self._main_ticket = 0
        """The attempt that it runs. Only the main thread writes it, so this needs no lock."""
        self._signals: list[tuple[int, Any]] = []
        self._pending: tuple[int, Interruption] | None = None
        self._shielded: set[int] = set()
        self._deferred: dict[int, Interruption] = {}

    def use_signal(self) -> None:
        """Interrupt the main thread, which runs handlers, by a signal."""
        self._main = threading.get_ident()
        signal.signal(_SIGNAL, self._on_signal)
        self._signals = [(number, _signal_handler(number)) for number in _RESTORED]

    def begin(self, ticket: int) -> None:
        """Record that this thread runs the attempt with this ticket."""
        if self._main:
            self._main_ticket = ticket
        else:
            with self._lock:
                self._threads[ticket] = threading.get_ident()

    def end(self, ticket: int) -> None:
        """Record that the attempt has ended. Nothing is raised in its thread from here on."""
        if self._main:
            self._main_ticket = 0
            self._restore_signals()
        else:
            with self._lock:
                self._threads.pop(ticket, None)
            _raise_in_thread(threading.get_ident(), None)  # Clear one that was set but not raised yet.

    def add_coroutine(self, ticket: int, interrupt: Callable[[Interruption], None]) -> None:
        """Record that a coroutine runs the attempt with this ticket. `interrupt` cancels it."""
        self._coroutines[ticket] = interrupt

    def remove_coroutine(self, ticket: int) -> None:
        """Record that the attempt has ended."""
        self._coroutines.pop(ticket, None)

    @contextmanager
    def shield(self) -> Generator[None]:
        """Delay interruptions of this thread until the end of the block."""
        me = threading.get_ident()
        with self._lock:
            self._shielded.add(me)
        try:
            yield
        finally:
            with self._lock:
                self._shielded.discard(me)
                deferred = self._deferred.pop(me, None)
            if deferred is not None:
                raise deferred

    def raise_in(self, ticket: int, *, cancelled: bool) -> None:
        """Raise `Cancelled` or `SoftTimeout` in the attempt with this ticket, if it still runs."""
        error: Interruption = Cancelled if cancelled else SoftTimeout
        interrupt = self._coroutines.get(ticket)
        if interrupt is not None:
            interrupt(error)
            return
        if self._main:
            if ticket == self._main_ticket:  # The signal handler checks this again, in the main thread.
                self._pending = (ticket, error)
                signal.pthread_kill(self._main, _SIGNAL)
            return
        with self._lock:  # While it is held, the thread cannot move on to another attempt.
            thread = self._threads.get(ticket)
            if thread is None:
                return
            if thread in self._shielded:
                self._deferred[thread] = error
            else:
                _raise_in_thread(thread, error)

    def _restore_signals(self) -> None:
        """Restore the signal handlers that the attempt changed and that the next ones need."""
        for number, handler in self._signals:
            if _signal_handler(number) is not handler and handler is not None:
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Raise the pending interruption in the main thread, unless its attempt has ended."""
        pending, self._pending = self._pending, None
        if pending is None or pending[0] != self._main_ticket:
            return
        if self._main in self._shielded:
            self._deferred[self._main] = pending[1]
        else:
            raise pending[1]


def describe_interruption(error: Interruption) -> Outcome:
    """Return the outcome of an attempt that did not catch the exception raised in it."""
    if error is SoftTimeout:
        return Raised(Error(kind="SoftTimeout", message="the handler ran into its soft time limit"))
    return Stopped(State.CANCELLED)


def _raise_in_thread(thread: int, error: Interruption | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
