from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from windlass import App, RetryIn, current
from windlass.client import tracing
from windlass.client.handlers import Bound
from windlass.core.task import NewTask
from windlass.errors import InvalidTask
from windlass.stores.memory import MemoryStore
from windlass.testing import ManualClock, drain

pytestmark = pytest.mark.anyio


class Spans:
    """The recorded spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self.reader])

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    tracing.enable(spans.tracers, spans.meters)
    yield spans
    tracing.disable()
    spans.meters.shutdown()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> App:
    return App(store=MemoryStore(clock=clock))


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_the_first_attempt_belongs_to_the_trace_of_its_submit(app: App, spans: Spans) -> None:
    inside: list[int] = []

    @app.task(queue="mail")
    def work() -> None:
        inside.append(get_current_span().get_span_context().span_id)

    with spans.tracers.get_tracer("test").start_as_current_span("request") as request:
        handle = work.enqueue()
    drain(app)

    send, process = spans.one("send mail"), spans.one("process mail")
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    assert process.parent is not None
    assert (process.parent.trace_id, process.parent.span_id) == ids(send)
    assert ids(process)[0] == request.get_span_context().trace_id
    assert inside == [ids(process)[1]]
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert {attributes_of(span)["messaging.message.id"] for span in (send, process)} == {str(handle.id)}


def test_spans_follow_the_messaging_conventions(app: App, spans: Spans) -> None:
    @app.task(queue="mail")
    def work() -> None: ...

    work.using(tenant="acme", workflow="w1").enqueue()
    drain(app)

    for name in ("send", "process"):
        attributes = attributes_of(spans.one(f"{name} mail"))
        assert attributes["messaging.system"] == "windlass"
        assert attributes["messaging.destination.name"] == "mail"
        assert attributes["messaging.operation.name"] == attributes["messaging.operation.type"] == name
        assert attributes["windlass.handler"] == work.name
    attributes = attributes_of(spans.one("process mail"))
    assert (attributes["windlass.attempt"], attributes["windlass.tenant"]) == (1, "acme")
    assert attributes["windlass.outcome"] == "returned"
    assert attributes["messaging.message.conversation_id"] == "w1"


def test_a_retry_has_its_own_trace_and_a_link_back(app: App, spans: Spans, clock: ManualClock) -> None:
    @app.task
    def work() -> None:
        if current().attempt == 1:
            raise RetryIn("1d", "password=hunter2")

    work.enqueue()
    drain(app, clock=clock, advance=True)

    send = spans.one("send default")
    first, second = spans.named("process default")
    assert ids(first)[0] == ids(send)[0]
    assert not first.links
    assert second.parent is None
    assert ids(second)[0] != ids(send)[0]
    assert [(link.context.trace_id, link.context.span_id) for link in second.links] == [ids(send)]
    assert attributes_of(second)["windlass.attempt"] == 2


def test_errors_in_spans_are_redacted(app: App, spans: Spans) -> None:
    @app.task(retries=0)
    def work() -> None:
        raise ValueError("cannot reach postgresql://me:hunter2@db/x")

    work.enqueue()
    drain(app)

    span = spans.one("process default")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "ValueError"
    [event] = span.events
    assert event.name == "exception"
    assert "in work" in str((event.attributes or {})["exception.stacktrace"])
    assert "hunter2" not in span.to_json()


async def test_async_handlers_and_callers_are_traced_too(app: App, spans: Spans) -> None:
    inside: list[int] = []

    @app.task
    async def work() -> None:
        inside.append(get_current_span().get_span_context().span_id)

    await work.aenqueue()
    drain(app)

    assert inside == [ids(spans.one("process default"))[1]]
    parent = spans.one("process default").parent
    assert parent is not None
    assert parent.span_id == ids(spans.one("send default"))[1]


def test_tasks_enqueued_by_a_handler_belong_to_its_trace(app: App, spans: Spans) -> None:
    @app.task(queue="b")
    def second() -> None: ...

    @app.task(queue="a")
    def first() -> None:
        second.enqueue()

    first.enqueue()
    drain(app)

    sent = spans.one("send b")
    assert sent.parent is not None
    assert sent.parent.span_id == ids(spans.one("process a"))[1]
    assert len({ids(spans.one(name))[0] for name in ("send a", "process a", "send b", "process b")}) == 1


def test_a_batch_is_one_span_and_keeps_the_trace_of_the_caller(app: App, spans: Spans) -> None:
    @app.task
    def work(number: int) -> None: ...

    given = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    app.enqueue_many([work.bind(1), work.bind(2), Bound(NewTask(handler=work.name, args={"number": 3}, trace=given))])
    drain(app)

    assert attributes_of(spans.one("send default"))["messaging.batch.message_count"] == 3
    parents = [span.parent.trace_id for span in spans.named("process default") if span.parent]
    assert len(parents) == 3
    assert int("1" * 32, 16) in parents


def test_log_records_of_a_handler_carry_its_trace(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    def work() -> None:
        current().log.warning("here")

    given = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    app.store.submit([NewTask(handler=work.name, trace=trace) for trace in (given, "rubbish", None)])
    drain(app)

    trace_ids = [vars(record).get("trace_id") for record in caplog.records if record.message == "here"]
    assert sorted(map(str, trace_ids)) == ["1" * 32, "None", "None"]


def test_an_invalid_trace_is_ignored(app: App, spans: Spans) -> None:
    @app.task
    def work() -> None: ...

    app.store.submit([NewTask(handler=work.name, trace="rubbish")])
    drain(app)

    assert spans.one("process default").parent is None


def test_attempts_do_not_share_a_trace_context(app: App, spans: Spans) -> None:
    @app.task
    def work() -> None: ...

    app.store.submit([NewTask(handler=work.name), NewTask(handler=work.name)])
    drain(app)

    first, second = spans.named("process default")
    assert ids(first)[0] != ids(second)[0]
    assert not get_current_span().get_span_context().is_valid


def test_a_refused_submit_is_an_error_of_its_span(app: App, spans: Spans) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidTask):
        work.using(after=["nobody"]).enqueue()

    span = spans.one("send default")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "UnknownPrerequisite"


def test_durations_are_measured(app: App, spans: Spans) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()
    drain(app)

    data = spans.reader.get_metrics_data()
    assert data is not None
    metrics = [metric for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics]
    assert {metric.name for metric in metrics} == {"messaging.client.operation.duration", "messaging.process.duration"}
    assert {metric.unit for metric in metrics} == {"s"}


class Broken(SpanProcessor):
    """A span processor that always fails."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no room")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("no room")


def test_a_tracing_error_does_not_fail_the_task(app: App, caplog: pytest.LogCaptureFixture) -> None:
    broken = TracerProvider()
    broken.add_span_processor(Broken())
    tracing.enable(broken)

    @app.task
    def work() -> int:
        return 7

    try:
        handle = work.enqueue()
        drain(app)
    finally:
        tracing.disable()

    assert handle.result() == 7
    assert "tracing failed; the task is not affected" in caplog.text


def test_tracing_that_is_off_imports_nothing() -> None:
    code = """
import sys, windlass
from windlass.testing import drain
app = windlass.App("memory:")
@app.task
def work() -> None: ...
handle = work.enqueue()
drain(app)
print(app.store.get([handle.id])[0].rules.trace, [name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "None []\n"


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(ImportError, match=r'pip install "windlass-tasks\[otel\]"'):
        tracing.enable()
