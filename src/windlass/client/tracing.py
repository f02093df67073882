"""Traces by OpenTelemetry: a span for each submit, one for each attempt, and the thread between them.

Off unless `$WINDLASS_TRACING` is 1 or `enable()` was called; until then nothing of OpenTelemetry is imported. The
context travels with the task as a W3C `traceparent`. A first attempt is part of the trace that sent it; a retry, which
may come a day later, has a trace of its own and a link back. Whatever goes wrong in here harms no task.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from windlass.clock import monotonic
from windlass.core.assignment import Assignment
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import NewTask, TaskId
from windlass.redaction import redacted_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Link, Span, TracerProvider

__all__ = ["disable", "enable", "processing", "sending"]

logger = logging.getLogger("windlass.client.tracing")
_BATCH = "messaging.batch.message_count"
NEEDED = "traces need OpenTelemetry: pip install 'windlass[otel]'"


class HasId(Protocol):
    """What a submit is answered with."""

    @property
    def id(self) -> TaskId: ...


Answered = TypeVar("Answered", bound=Sequence[HasId])


class _Switch:
    """Whether this process traces; the environment is asked once."""

    def __init__(self) -> None:
        self.asked = False
        self.tracing: Tracing | None = None

    def on(self) -> Tracing | None:
        if not self.asked:
            self.asked = True
            if os.environ.get("WINDLASS_TRACING", "").lower() in ("1", "true", "yes"):
                try:
                    self.tracing = Tracing()
                except ImportError:
                    logger.warning("WINDLASS_TRACING is set, but %s", NEEDED)
        return self.tracing


_switch = _Switch()


def enable(tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
    """Trace what this process submits and runs, by these providers, or by those that OpenTelemetry knows by then."""
    try:
        found = Tracing(tracers, meters)
    except ImportError as error:
        raise ImportError(NEEDED) from error
    _switch.asked, _switch.tracing = True, found


def disable() -> None:
    """Trace nothing more."""
    _switch.asked, _switch.tracing = True, None


def sending(tasks: Sequence[NewTask]) -> Sending | None:
    """The span of a submit; None when nothing is traced, which is what it costs then."""
    tracing = _switch.on()
    return None if tracing is None else Sending(tracing, tasks)


def processing(order: Assignment) -> Processing:
    """The span of an attempt; one that does nothing when nothing is traced."""
    return Processing(_switch.on(), order)


class Tracing:
    """What spans are made with."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        from opentelemetry import context, metrics, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.context, self.trace = context, trace
        self.tracer = trace.get_tracer("windlass", tracer_provider=tracers)
        self.propagator = TraceContextTextMapPropagator()
        meter = metrics.get_meter("windlass", meter_provider=meters)
        self.sent = meter.create_histogram("messaging.client.operation.duration", "s", "How long submits took.")
        self.processed = meter.create_histogram("messaging.process.duration", "s", "How long attempts ran.")

    def written(self, span: Span) -> str | None:
        """The context of a span as a task carries it."""
        carrier: dict[str, str] = {}
        self.propagator.inject(carrier, self.trace.set_span_in_context(span))
        return carrier.get("traceparent")

    def origin(self, order: Assignment) -> tuple[Context, list[Link]]:
        """What an attempt is a part of, and what it links back to."""
        # Never what happens to be current in this thread: nothing that ran here before has to do with this task.
        nothing = self.context.Context()
        if order.trace is None:
            return nothing, []
        sent = self.propagator.extract({"traceparent": order.trace}, nothing)
        if order.attempt == 1:
            return sent, []
        origin = self.trace.get_current_span(sent).get_span_context()
        return nothing, [self.trace.Link(origin)] if origin.is_valid else []


class Sending:
    """A submit, from its call to its commit."""

    def __init__(self, tracing: Tracing, tasks: Sequence[NewTask]) -> None:
        self.tasks = tasks
        """The same with the trace in them; one that has a trace already keeps it."""
        self._tracing = tracing
        self._span: Span | None = None
        self._begun = monotonic()
        queues = {task.queue for task in tasks}
        self._attributes = _messaging("send", queues.pop() if len(queues) == 1 else None)
        if len(tasks) > 1:
            self._attributes[_BATCH] = len(tasks)
        elif tasks:
            self._attributes["windlass.handler"] = tasks[0].handler

    def __enter__(self) -> Sending:
        with _harmless():
            self._begin()
        return self

    def sent(self, receipts: Answered) -> Answered:
        """What the submit was answered with."""
        if len(receipts) == 1 and self._span is not None:
            with _harmless():
                self._span.set_attribute("messaging.message.id", str(receipts[0].id))
        return receipts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._span is not None:
            with _harmless():
                self._end(self._span, kind, error)

    def _begin(self) -> None:
        trace = self._tracing.trace
        name = " ".join(filter(None, ["send", str(self._attributes.get("messaging.destination.name", ""))]))
        self._span = self._tracing.tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=self._attributes)
        written = self._tracing.written(self._span)
        if written is not None:
            self.tasks = [task if task.trace else replace(task, trace=written) for task in self.tasks]

    def _end(self, span: Span, kind: type[BaseException] | None, error: BaseException | None) -> None:
        measured = {name: value for name, value in self._attributes.items() if name != _BATCH}
        if kind is not None:
            measured["error.type"] = kind.__qualname__
            span.set_attribute("error.type", kind.__qualname__)
            span.set_status(self._tracing.trace.StatusCode.ERROR, redacted_text(str(error)))
        span.end()
        self._tracing.sent.record(monotonic() - self._begun, measured)


class Processing:
    """An attempt, from its order to its outcome. While in here its span is the current one."""

    def __init__(self, tracing: Tracing | None, order: Assignment) -> None:
        self._tracing = tracing
        self._order = order
        self._span: Span | None = None
        self._begun = 0.0
        self._error = ""

    def __enter__(self) -> Processing:
        if self._tracing is not None:
            with _harmless():
                self._begin(self._tracing)
        return self

    def ended(self, outcome: Outcome) -> Outcome:
        """What came of it."""
        if self._tracing is not None and self._span is not None:
            with _harmless():
                self._tell(self._tracing, self._span, outcome)
        return outcome

    def __exit__(self, *_: object) -> None:
        if self._tracing is not None and self._span is not None:
            with _harmless():
                self._end(self._tracing, self._span)

    def _begin(self, tracing: Tracing) -> None:
        order = self._order
        attributes = {
            **_messaging("process", order.queue),
            "messaging.message.id": str(order.task),
            "windlass.handler": order.handler,
            "windlass.tenant": order.tenant,
            "windlass.attempt": order.attempt,
        }
        if order.workflow is not None:
            attributes["messaging.message.conversation_id"] = order.workflow
        context, links = tracing.origin(order)
        kind = tracing.trace.SpanKind.CONSUMER
        span = tracing.tracer.start_span(f"process {order.queue}", context, kind, attributes, links)
        self._token = tracing.context.attach(tracing.trace.set_span_in_context(span, context))
        self._span, self._begun = span, monotonic()

    def _end(self, tracing: Tracing, span: Span) -> None:
        tracing.context.detach(self._token)
        span.end()
        measured = {**_messaging("process", self._order.queue), "windlass.handler": self._order.handler}
        if self._error:
            measured["error.type"] = self._error
        tracing.processed.record(monotonic() - self._begun, measured)

    def _tell(self, tracing: Tracing, span: Span, outcome: Outcome) -> None:
        span.set_attribute("windlass.outcome", _named(outcome))
        if isinstance(outcome, Raised):
            error = outcome.error
            self._error = error.kind
            message = redacted_text(error.message)
            span.set_attribute("error.type", error.kind)
            span.set_status(tracing.trace.StatusCode.ERROR, message)
            said = {"exception.type": error.kind, "exception.message": message}
            span.add_event("exception", {**said, "exception.stacktrace": redacted_text(error.traceback or "")})


@contextmanager
def _harmless() -> Generator[None]:
    """Let nothing that goes wrong with a trace go wrong with its task."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("windlass."):
            raise  # A cancel or a soft limit, raised here from outside: the attempt must hear of it.
        logger.exception("a span could not be made; its task is unharmed")


def _messaging(operation: str, queue: str | None) -> dict[str, str | int]:
    """What OpenTelemetry's conventions for messaging want to be said."""
    found: dict[str, str | int] = {
        "messaging.system": "windlass",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    return found if queue is None else {**found, "messaging.destination.name": queue}


_NAMES: Mapping[type[Outcome], str] = {
    Returned: "returned",
    Raised: "raised",
    Released: "released",
    Stopped: "stopped",
}


def _named(outcome: Outcome) -> str:
    return _NAMES.get(type(outcome), "lost")
