"""OpenTelemetry traces: a span for each submit, a span for each attempt, and the link between them.

Tracing is off unless `$WINDLASS_TRACING` is 1 or `enable()` was called; until then OpenTelemetry is not imported. The
context travels with the task as a W3C `traceparent`. A first attempt belongs to the trace of its submit. A retry, which
may come a day later, has a trace of its own with a link back. Errors in this module never fail a task.
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
from windlass.core.settlement import Continued, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import NewTask, TaskId
from windlass.distribution import install_hint
from windlass.redaction import redact_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Link, Span, TracerProvider

__all__ = ["disable", "enable", "start_attempt_span", "submit_span"]

logger = logging.getLogger("windlass.client.tracing")
_BATCH = "messaging.batch.message_count"
NEEDED = f"Tracing needs OpenTelemetry: {install_hint('otel')}"


class HasId(Protocol):
    """A receipt of a submit."""

    @property
    def id(self) -> TaskId: ...


Receipts = TypeVar("Receipts", bound=Sequence[HasId])


class _Switch:
    """Whether this process traces; the environment is read once."""

    def __init__(self) -> None:
        self.is_read = False
        self.tracing: Tracing | None = None

    def current(self) -> Tracing | None:
        if not self.is_read:
            self.is_read = True
            if os.environ.get("WINDLASS_TRACING", "").lower() in ("1", "true", "yes"):
                try:
                    self.tracing = Tracing()
                except ImportError:
                    logger.warning("WINDLASS_TRACING is set. %s", NEEDED)
        return self.tracing


_switch = _Switch()


def enable(tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
    """Trace submits and attempts of this process with these providers, or with OpenTelemetry's global ones."""
    try:
        found = Tracing(tracers, meters)
    except ImportError as error:
        raise ImportError(NEEDED) from error
    _switch.is_read, _switch.tracing = True, found


def disable() -> None:
    """Stop tracing."""
    _switch.is_read, _switch.tracing = True, None


def submit_span(tasks: Sequence[NewTask]) -> SubmitSpan | None:
    """Return the span of a submit, or None when tracing is off."""
    tracing = _switch.current()
    return None if tracing is None else SubmitSpan(tracing, tasks)


def start_attempt_span(assignment: Assignment) -> AttemptSpan | None:
    """Start the span of an attempt and make it the current one; None when tracing is off."""
    tracing = _switch.tracing if _switch.is_read else _switch.current()
    return None if tracing is None else AttemptSpan(tracing, assignment)


class Tracing:
    """The tracer, the propagator and the meters of OpenTelemetry."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        from opentelemetry import context, metrics, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.context, self.trace = context, trace
        self.tracer = trace.get_tracer("windlass", tracer_provider=tracers)
        self.propagator = TraceContextTextMapPropagator()
        meter = metrics.get_meter("windlass", meter_provider=meters)
        self.sent = meter.create_histogram("messaging.client.operation.duration", "s", "How long submits took.")
        self.processed = meter.create_histogram("messaging.process.duration", "s", "How long attempts ran.")

    def traceparent(self, span: Span) -> str | None:
        """Return the `traceparent` of a span, which the task carries."""
        carrier: dict[str, str] = {}
        self.propagator.inject(carrier, self.trace.set_span_in_context(span))
        return carrier.get("traceparent")

    def origin(self, assignment: Assignment) -> tuple[Context, list[Link]]:
        """Return the parent context of an attempt and its links."""
        # Not the current context of this thread: an earlier task may have left it.
        nothing = self.context.Context()
        if assignment.trace is None:
            return nothing, []
        sent = self.propagator.extract({"traceparent": assignment.trace}, nothing)
        if assignment.attempt == 1:
            return sent, []
        origin = self.trace.get_current_span(sent).get_span_context()
        return nothing, [self.trace.Link(origin)] if origin.is_valid else []


class SubmitSpan:
    """The span of a submit, from the call to the commit."""

    def __init__(self, tracing: Tracing, tasks: Sequence[NewTask]) -> None:
        self.tasks = tasks
        """The tasks with this trace in them; a task that already has a trace keeps it."""
        self._tracing = tracing
        self._span: Span | None = None
        self._started = monotonic()
        queues = {task.queue for task in tasks}
        self._attributes = _messaging("send", queues.pop() if len(queues) == 1 else None)
        if len(tasks) > 1:
            self._attributes[_BATCH] = len(tasks)
        elif tasks:
            self._attributes["windlass.handler"] = tasks[0].handler

    def __enter__(self) -> SubmitSpan:
        with _logging_errors():
            self._start()
        return self

    def record(self, receipts: Receipts) -> Receipts:
        """Add the id of a single task to the span."""
        if len(receipts) == 1 and self._span is not None:
            with _logging_errors():
                self._span.set_attribute("messaging.message.id", str(receipts[0].id))
        return receipts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._span is not None:
            with _logging_errors():
                self._end(self._span, kind, error)

    def _start(self) -> None:
        trace = self._tracing.trace
        name = " ".join(filter(None, ["send", str(self._attributes.get("messaging.destination.name", ""))]))
        self._span = self._tracing.tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=self._attributes)
        traceparent = self._tracing.traceparent(self._span)
        if traceparent is not None:
            self.tasks = [task if task.trace else replace(task, trace=traceparent) for task in self.tasks]

    def _end(self, span: Span, kind: type[BaseException] | None, error: BaseException | None) -> None:
        measured = {name: value for name, value in self._attributes.items() if name != _BATCH}
        if kind is not None:
            measured["error.type"] = kind.__qualname__
            span.set_attribute("error.type", kind.__qualname__)
            span.set_status(self._tracing.trace.StatusCode.ERROR, redact_text(str(error)))
        span.end()
        self._tracing.sent.record(monotonic() - self._started, measured)


class AttemptSpan:
    """The span of an attempt, from its assignment to its outcome. It is the current span until it ends."""

    def __init__(self, tracing: Tracing, assignment: Assignment) -> None:
        self._tracing = tracing
        self._assignment = assignment
        self._span: Span | None = None
        self._started = 0.0
        self._error = ""
        with _logging_errors():
            self._start(tracing)

    def end(self, outcome: Outcome | None) -> None:
        """Record the outcome, if there is one, and end the span."""
        if self._span is not None:
            with _logging_errors():
                if outcome is not None:
                    self._record(self._tracing, self._span, outcome)
            with _logging_errors():
                self._end(self._tracing, self._span)

    def _start(self, tracing: Tracing) -> None:
        assignment = self._assignment
        attributes = {
            **_messaging("process", assignment.queue),
            "messaging.message.id": str(assignment.task),
            "windlass.handler": assignment.handler,
            "windlass.tenant": assignment.tenant,
            "windlass.attempt": assignment.attempt,
        }
        if assignment.workflow is not None:
            attributes["messaging.message.conversation_id"] = assignment.workflow
        context, links = tracing.origin(assignment)
        kind = tracing.trace.SpanKind.CONSUMER
        span = tracing.tracer.start_span(f"process {assignment.queue}", context, kind, attributes, links)
        self._token = tracing.context.attach(tracing.trace.set_span_in_context(span, context))
        self._span, self._started = span, monotonic()

    def _end(self, tracing: Tracing, span: Span) -> None:
        tracing.context.detach(self._token)
        span.end()
        measured = {**_messaging("process", self._assignment.queue), "windlass.handler": self._assignment.handler}
        if self._error:
            measured["error.type"] = self._error
        tracing.processed.record(monotonic() - self._started, measured)

    def _record(self, tracing: Tracing, span: Span, outcome: Outcome) -> None:
        span.set_attribute("windlass.outcome", _outcome_name(outcome))
        if isinstance(outcome, Raised):
            error = outcome.error
            self._error = error.kind
            message = redact_text(error.message)
            span.set_attribute("error.type", error.kind)
            span.set_status(tracing.trace.StatusCode.ERROR, message)
            exception = {"exception.type": error.kind, "exception.message": message}
            span.add_event("exception", {**exception, "exception.stacktrace": redact_text(error.traceback or "")})


@contextmanager
def _logging_errors() -> Generator[None]:
    """Log an error of the tracing code instead of failing the task."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("windlass."):
            raise  # A cancel or a soft timeout raised from outside, which must reach the attempt.
        logger.exception("tracing failed; the task is not affected")


def _messaging(operation: str, queue: str | None) -> dict[str, str | int]:
    """Return the attributes of OpenTelemetry's messaging conventions."""
    found: dict[str, str | int] = {
        "messaging.system": "windlass",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    return found if queue is None else {**found, "messaging.destination.name": queue}


_NAMES: Mapping[type[Outcome], str] = {
    Returned: "returned",
    Continued: "continued",
    Raised: "raised",
    Released: "released",
    Stopped: "stopped",
}


def _outcome_name(outcome: Outcome) -> str:
    return _NAMES.get(type(outcome), "lost")
