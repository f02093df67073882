"""The text that Prometheus reads, and a small thread that serves it where there is no HTTP server: on a node."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from windlass.config import InvalidSettings
from windlass.metrics.calls import Measured
from windlass.metrics.store import StoreMetrics
from windlass.stores.protocol import Store

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SLOW = 10
"""Seconds that a request may take to come."""


class Collector(Protocol):
    """Whatever has metrics."""

    def collect(self) -> Iterable[Metric]: ...


class Together:
    """Several collectors as one, without the moments at which counters began: nobody asks for those."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
                yield metric


def exposition(store: Store) -> bytes:
    """How things stand in a store. With one that is timed (`StoreCalls.measured`), the calls of this process too."""
    if isinstance(store, Measured):
        return text(_collector(store.store), store.calls.registry)
    return text(_collector(store))


@lru_cache(maxsize=4)
def _collector(store: Store) -> StoreMetrics:
    """One for each store, so that all who ask share its readings. A process has one store, tests have a few."""
    return StoreMetrics(store)


def text(*collectors: Collector) -> bytes:
    """Everything that these have to say."""
    together: Any = Together(collectors)  # All that is asked of a registry here is that it collects.
    return generate_latest(together)


def serve(address: str, *registries: CollectorRegistry) -> ThreadingHTTPServer:
    """Serve /metrics at HOST:PORT, or at PORT of this machine alone, from a thread; `shutdown` ends it."""
    host, port = parsed(address)

    class Answer(_Answer):
        collectors = registries

    try:
        server = ThreadingHTTPServer((host, port), Answer)
    except OSError as error:
        raise InvalidSettings(f"--metrics {address}: cannot listen there: {error.strerror or error}") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="windlass-metrics", daemon=True).start()
    return server


def parsed(address: str) -> tuple[str, int]:
    """The two parts of an address."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSettings(f"--metrics {address!r} is no address; write HOST:PORT, or PORT for this machine alone")
    return host.strip("[]") or "127.0.0.1", int(port)


class _Answer(BaseHTTPRequestHandler):
    collectors: Sequence[CollectorRegistry] = ()
    timeout = SLOW
    server_version, sys_version = "windlass", ""

    def do_GET(self) -> None:
        found = text(*self.collectors) if self.path.partition("?")[0] == "/metrics" else None
        body = b"there is only /metrics here\n" if found is None else found
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "text/plain; charset=utf-8" if found is None else MEDIA_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a scrape every few seconds is no news."""
