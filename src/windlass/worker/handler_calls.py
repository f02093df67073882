"""Does for handlers what they ask of the store, and writes down their progress, without making the hub wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext

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
    """A few threads for the calls of handlers."""

    def __init__(self, store: Store, answer: Callable[[Worker, Answer], None], events: Events) -> None:
        self._store = store
        self._answer = answer
        self._events = events
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="clerk")
        self._progress: dict[Lease, Progress] = {}
        self._written_at = 0.0
        self._writing: Future[bool] | None = None
        self._closed = threading.Event()

    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        """Do what a handler asks, and answer it."""
        self._threads.submit(self._serve, worker, lease, call)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        """Remember how far an attempt is; only the latest word counts."""
        self._progress[lease] = Progress(lease=lease, share=share, message=message)

    def tick(self, now: float) -> None:
        """Have the latest progress written, at most once a second and one after the other."""
        under_way = self._writing is not None and not self._writing.done()
        if self._progress and not under_way and now - self._written_at >= _PROGRESS_SECONDS:
            self._written_at = now
            reports, self._progress = list(self._progress.values()), {}
            self._writing = self._threads.submit(
                self._retry_until_stored, "write progress", lambda: self._store.progress(reports)
            )

    def publish(self, manifest: Manifest) -> None:
        """Have it written down what the app consists of; without it no cron fires, so it is tried until it is there."""
        self._threads.submit(self._publish, manifest)

    def close(self) -> None:
        """End what is under way; what has not begun is left."""
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)

    def _serve(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        try:
            self._answer(worker, Answer(call.call, self._done(lease, call)))
        except WindlassError as error:
            self._answer(worker, Answer(call.call, None, encode_refusal(error)))
        except Exception as error:  # noqa: BLE001 - whatever a handler's call did here, its handler must hear of it
            wrapped = StoreError(f"{call.method} failed in the node: {type(error).__name__}: {error}")
            self._answer(worker, Answer(call.call, None, encode_refusal(wrapped)))

    def _done(self, lease: Lease | None, call: Call) -> bytes | None:
        if call.method not in METHODS:
            raise StoreError(f"{call.method} is not for handlers")
        positional, named = decode_call(call.method, call.value)
        if call.method == "submit":
            named["lease"] = lease or named.get("lease")
        with refused_submits.counting() if call.method == "submit" else nullcontext():
            answer = getattr(self._store, call.method)(*positional, **named)
        return None if answer is None else encode_answer(answer)

    def _publish(self, manifest: Manifest) -> None:
        while not self._retry_until_stored("publish the manifest", lambda: self._store.publish(manifest)):
            if self._closed.wait(_AGAIN_SECONDS):
                return

    def _retry_until_stored(self, doing: str, deed: Callable[[], object]) -> bool:
        try:
            deed()
        except WindlassError as error:
            self._events.emit(StoreCallFailed(doing=doing, error=str(error)))
            return False
        return True
