"""Serves the store calls of handlers and writes their progress and output.

It has threads of its own, so that the hub never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext

from windlass.clock import Clock
from windlass.core.manifest import Manifest
from windlass.core.task import Lease, Progress
from windlass.errors import InvalidPayload, NotAllowed, StoreError, WindlassError
from windlass.events import Events, StoreCallFailed
from windlass.refused_submits import refused_submits
from windlass.stores.protocol import Store
from windlass.worker.call_queue import CallScope, WaitingCall
from windlass.worker.capture import MAX_AT_ONCE
from windlass.worker.handler_store import MAX_ANSWER, METHODS, HandlerStore
from windlass.worker.remote import decode_call, encode_answer, encode_refusal
from windlass.worker.wire import Answer, Call
from windlass.worker.worker import Worker

_PROGRESS_SECONDS = 1.0
_OUTPUT_SECONDS = 1.0
_AGAIN_SECONDS = 1.0


class HandlerCalls:
    """A few threads that call the store for handlers."""

    def __init__(
        self,
        store: Store,
        answer: Callable[[Worker, Answer], None],
        events: Events,
        clock: Clock,
        count_unread: Callable[[Worker], int] = lambda _worker: 0,
    ) -> None:
        self._store = store
        self._answer = answer
        self._count_unread = count_unread
        self._events = events
        self._clock = clock
        self._queues = threading.Lock()
        """Guards the call queues of all workers."""
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="windlass-call")
        self._progress: dict[Lease, Progress] = {}
        self._written_at = 0.0
        self._writing: Future[bool] | None = None
        self._outputs: dict[int, Worker] = {}
        """The workers of attempts whose output has changed, by ticket. Those that have waited longest come first."""
        self._output_written_at = 0.0
        self._writing_output: Future[bool] | None = None
        self._closed = threading.Event()

    def call(self, worker: Worker, scope: CallScope, call: Call) -> None:
        """Run a store call of a handler, when the worker's calls before it have been answered, and send the answer."""
        with self._queues:
            worker.calls.add(scope, call)
        self.resume(worker)

    def resume(self, worker: Worker) -> None:
        """Start calls of a worker that may start now: it has sent one, one was answered, or it has read answers."""
        with self._queues:
            while (waiting := worker.calls.take(self._count_unread(worker))) is not None:
                if worker.state.over or self._closed.is_set():
                    worker.calls.end(waiting)
                else:
                    self._threads.submit(self._serve, worker, waiting)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        """Record the progress of an attempt. Only the latest is kept."""
        self._progress[lease] = Progress(lease=lease, share=share, message=message)

    def output(self, worker: Worker, ticket: int) -> None:
        """Record that the output of a running attempt has changed."""
        self._outputs[ticket] = worker

    def tick(self, now: float) -> None:
        """Write the latest progress and output, each at most once a second and one write at a time."""
        if self._progress and _is_free(self._writing) and now - self._written_at >= _PROGRESS_SECONDS:
            self._written_at = now
            reports, self._progress = list(self._progress.values()), {}
            self._writing = self._threads.submit(self._try, "write progress", lambda: self._store.progress(reports))
        if self._outputs and _is_free(self._writing_output) and now - self._output_written_at >= _OUTPUT_SECONDS:
            self._output_written_at = now
            if outputs := self._take_outputs():
                self._writing_output = self._threads.submit(
                    self._try, "write output", lambda: self._store.record_output(outputs)
                )

    def _take_outputs(self) -> list[tuple[Lease, str]]:
        """Return the output of attempts that still run, up to about `MAX_AT_ONCE`. The rest stays."""
        found: list[tuple[Lease, str]] = []
        size = 0
        for ticket, worker in list(self._outputs.items()):
            if size >= MAX_AT_ONCE:
                break
            del self._outputs[ticket]
            attempt = worker.running.get(ticket)
            if attempt is not None and attempt.output:
                found.append((attempt.claim.lease, attempt.output))
                size += len(attempt.output)
        return found

    def publish(self, manifest: Manifest) -> None:
        """Write the manifest of the app. It is retried until it is stored, because crons need it."""
        self._threads.submit(self._publish, manifest)

    def close(self) -> None:
        """Finish the calls under way and drop those that have not started."""
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)

    def _serve(self, worker: Worker, waiting: WaitingCall) -> None:
        call = waiting.call
        try:
            self._answer(worker, Answer(call.call, self._run(waiting.scope, call)))
        except WindlassError as error:
            self._answer(worker, Answer(call.call, None, encode_refusal(error)))
        except Exception as error:  # noqa: BLE001 - the handler gets every error of its call
            wrapped = StoreError(f"{call.method} failed in the node: {type(error).__name__}: {error}")
            self._answer(worker, Answer(call.call, None, encode_refusal(wrapped)))
        finally:
            with self._queues:
                worker.calls.end(waiting)
            self.resume(worker)

    def _run(self, scope: CallScope, call: Call) -> bytes | None:
        if call.method not in METHODS:
            raise StoreError(f"handlers may not call {call.method}")
        if "entries" in call.named:
            raise NotAllowed(f"{call.method}: a handler may not write audit entries.")
        positional, named = decode_call(call)
        with refused_submits.counting() if call.method == "submit" else nullcontext():
            answer = getattr(HandlerStore(self._store, scope), call.method)(*positional, **named)
        return None if answer is None else _encode(call.method, answer)

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


def _is_free(writing: Future[bool] | None) -> bool:
    return writing is None or writing.done()


def _encode(method: str, answer: object) -> bytes:
    encoded = encode_answer(answer)
    if len(encoded) > MAX_ANSWER:
        raise InvalidPayload(
            f"The answer to {method} has {len(encoded):,} bytes; at most {MAX_ANSWER:,} are allowed. Ask for less."
        )
    return encoded
