"""Serves the store calls of handlers and writes their progress, in threads of its own so that the hub never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext

from windlass.clock import Clock
from windlass.core.manifest import Manifest
from windlass.core.task import Lease, Progress
from windlass.errors import StoreError, WindlassError
from windlass.events import Events, StoreCallFailed
from windlass.refused_submits import refused_submits
from windlass.stores.protocol import Store
from windlass.worker.remote import METHODS, decode_call, encode_answer, encode_refusal
from windlass.worker.wire import Answer, Call
from windlass.worker.worker import Worker

_PROGRESS_SECONDS = 1.0
_AGAIN_SECONDS = 1.0


class HandlerCalls:
    """A few threads that call the store for handlers."""

    def __init__(self, store: Store, answer: Callable[[Worker, Answer], None], events: Events, clock: Clock) -> None:
        self._store = store
        self._answer = answer
        self._events = events
        self._clock = clock
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="windlass-call")
        self._progress: dict[Lease, Progress] = {}
        self._written_at = 0.0
        self._writing: Future[bool] | None = None
        self._closed = threading.Event()

    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        """Run a store call of a handler and send the answer."""
        self._threads.submit(self._serve, worker, lease, call)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        """Record the progress of an attempt. Only the latest is kept."""
        self._progress[lease] = Progress(lease=lease, share=share, message=message)

    def tick(self, now: float) -> None:
        """Write the latest progress, at most once a second and one write at a time."""
        under_way = self._writing is not None and not self._writing.done()
        if self._progress and not under_way and now - self._written_at >= _PROGRESS_SECONDS:
            self._written_at = now
            reports, self._progress = list(self._progress.values()), {}
            self._writing = self._threads.submit(self._try, "write progress", lambda: self._store.progress(reports))

    def publish(self, manifest: Manifest) -> None:
        """Write the manifest of the app. It is retried until it is stored, because crons need it."""
        self._threads.submit(self._publish, manifest)

    def close(self) -> None:
        """Finish the calls under way and drop those that have not started."""
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)

    def _serve(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        try:
            self._answer(worker, Answer(call.call, self._run(lease, call)))
        except WindlassError as error:
            self._answer(worker, Answer(call.call, None, encode_refusal(error)))
        except Exception as error:  # noqa: BLE001 - the handler gets every error of its call
            wrapped = StoreError(f"{call.method} failed in the node: {type(error).__name__}: {error}")
            self._answer(worker, Answer(call.call, None, encode_refusal(wrapped)))

    def _run(self, lease: Lease | None, call: Call) -> bytes | None:
        if call.method not in METHODS:
            raise StoreError(f"handlers may not call {call.method}")
        positional, named = decode_call(call)
        if call.method == "submit":
            named["lease"] = lease or named.get("lease")
        with refused_submits.counting() if call.method == "submit" else nullcontext():
            answer = getattr(self._store, call.method)(*positional, **named)
        return None if answer is None else encode_answer(answer)

    def _publish(self, manifest: Manifest) -> None:
        while not self._try("publish the manifest", lambda: self._store.publish(manifest)):
            if self._clock.wait(self._closed, _AGAIN_SECONDS):
                return

    def _try(self, doing: str, action: Callable[[], object]) -> bool:
        try:
            action()
        except WindlassError as error:
            self._events.emit(StoreCallFailed(doing=doing, error=str(error)))
            return False
        return True
