"""A real node counts what it does, and serves the counters on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.request import urlopen

import pytest

from tests.e2e import shop
from tests.metrics.values import read
from tests.support.nodes import NodeProcess
from tests.support.processes import until

pytestmark = pytest.mark.slow


def test_a_node_serves_its_counters(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1", "--metrics", "0")
    address = re.search(r"/metrics at (http://127\.0\.0\.1:\d+)", started.log)
    assert address is not None
    handle = shop.add.enqueue(1)
    handle.result(timeout=30)

    def counted() -> dict[str, float]:
        with urlopen(f"{address[1]}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            return read(answer.read())

    done = f"windlass_tasks_total{{handler={shop.add.name},outcome=completed,queue=default}}"
    until(lambda: counted().get(done) == 1, "the attempt is counted")
    found = counted()
    assert found["windlass_queue_wait_seconds_count{queue=default}"] == 1
    assert found["windlass_worker_start_seconds_count{pool=default}"] == 1
    assert found["windlass_store_call_seconds_count{method=claim}"] >= 1
