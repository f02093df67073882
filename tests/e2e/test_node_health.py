"""The health of a real node over a real socket."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, await_effect
from tests.support.processes import until
from tests.support.proxy import Proxy
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


def address_of(node: NodeProcess) -> str:
    found = re.search(r"/metrics at (http://127\.0\.0\.1:\d+)", node.log)
    assert found is not None
    return found[1]


def ask(url: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the parts of a health answer."""
    try:
        with urlopen(url, timeout=10) as answer:
            status, body = answer.status, answer.read()
    except HTTPError as error:
        with error:
            status, body = error.code, error.read()
    health = msgspec.json.decode(body)
    assert health["ready"] == (status == 200)
    return status, {part["name"]: part for part in health["parts"]}


def test_a_node_reports_whether_it_is_alive_and_ready(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "1", "--health", "0")
    address = address_of(started)

    until(lambda: ask(f"{address}/readyz")[0] == 200, "it is ready")
    status, parts = ask(f"{address}/readyz")
    assert (status, parts["workers"]["text"], parts["session"]["text"]) == (200, "default 1/1", "open")
    assert parts["autoscaler"]["text"].startswith("last tick ")
    assert ask(f"{address}/healthz")[0] == 200
    with urlopen(f"{address}/metrics", timeout=10) as answer:
        assert b"windlass_worker_start_seconds" in answer.read()

    shop.sleep.enqueue(600)
    await_effect(effects, "began")
    started.send(signal.SIGTERM)
    until(lambda: ask(f"{address}/readyz")[0] == 503, "a draining node is not ready")
    assert ask(f"{address}/readyz")[1]["workers"]["text"] == "the node is draining"
    assert ask(f"{address}/healthz")[0] == 200


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_an_unavailable_store_makes_a_node_unready_until_it_is_back(url: str, shop_store: Store, effects: Path) -> None:
    with (
        Proxy(url) as proxy,
        NodeProcess(proxy.url, effects, "-n", "1", "--health", "0", "--session-ttl", "5s") as started,
    ):
        started.await_workers()
        address = address_of(started)
        until(lambda: ask(f"{address}/readyz")[0] == 200, "it is ready")

        proxy.refuse()
        proxy.reset()
        until(lambda: ask(f"{address}/readyz")[0] == 503, "the node notices that the store is gone")
        assert ask(f"{address}/healthz")[0] == 200, "a restart would not bring the store back"

        proxy.admit()
        until(lambda: ask(f"{address}/readyz")[0] == 200, "it is ready again")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_node_answers_while_its_app_is_being_imported(
    url: str, shop_store: Store, effects: Path, tmp_path: Path
) -> None:
    (tmp_path / "slow_app.py").write_text(
        "import os, time, windlass\n"
        "app = windlass.App()\n"
        "while not os.path.exists(os.environ['GATE']): time.sleep(0.01)\n"
    )
    (tmp_path / "windlass.yaml").write_text("health: 0\npools: {default: {size: 1}}\n")
    variables = {"PYTHONPATH": str(tmp_path), "GATE": str(tmp_path / "gate")}
    with NodeProcess(
        f"sqlite:///{url}", effects, "--config", str(tmp_path / "windlass.yaml"), app="slow_app:app", **variables
    ) as started:
        until(lambda: "/readyz" in started.log, "it listens")
        address = address_of(started)

        assert ask(f"{address}/healthz")[0] == 200
        assert ask(f"{address}/readyz")[0] == 503

        (tmp_path / "gate").touch()
        until(lambda: ask(f"{address}/readyz")[0] == 200, "it is ready")
