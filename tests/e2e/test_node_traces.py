"""A trace continues from the process that enqueues to the worker, and a retry links back to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.nodes import NodeProcess
from windlass.client import tracing
from windlass.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.slow

APP = '''
import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import windlass

app = windlass.App()


@app.on_worker_start
def export() -> None:
    """In each worker, after the fork: exporters have threads and sockets of their own."""
    file = open(os.environ["SPANS"], "a", buffering=1)
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


@app.task
def twice() -> int:
    if windlass.current().attempt == 1:
        raise windlass.RetryIn("10ms")
    return windlass.current().attempt
'''


@pytest.fixture
def traced_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the module of the app, with a store that its nodes share."""
    (tmp_path / "traced_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("traced_app")
    store = SQLiteStore(tmp_path / "windlass.db")
    module.app.use_store(store)
    yield module
    store.close()
    del sys.modules["traced_app"]


def test_a_trace_reaches_the_worker_and_a_retry_links_back(traced_app: Any, tmp_path: Path) -> None:
    exporter, spans = InMemorySpanExporter(), tmp_path / "spans.jsonl"
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.enable(provider)
    variables = {"PYTHONPATH": str(tmp_path), "SPANS": str(spans), "WINDLASS_TRACING": "1"}
    url = f"sqlite:///{tmp_path / 'windlass.db'}"

    try:
        handle = traced_app.twice.enqueue()
        with NodeProcess(url, tmp_path / "effects", "-n", "1", app="traced_app:app", **variables) as node:
            assert handle.result(timeout=60) == 2, node.log
    finally:
        tracing.disable()

    [sent] = exporter.get_finished_spans()
    context = sent.get_span_context()
    assert context is not None
    first, second = (json.loads(line) for line in spans.read_text().splitlines())
    origin = f"0x{context.trace_id:032x}", f"0x{context.span_id:016x}"
    assert (first["context"]["trace_id"], first["parent_id"]) == origin
    assert first["status"]["status_code"] == "ERROR"
    assert second["context"]["trace_id"] != origin[0]
    assert [(link["context"]["trace_id"], link["context"]["span_id"]) for link in second["links"]] == [origin]
    assert second["attributes"]["messaging.message.id"] == str(handle.id)
