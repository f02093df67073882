"""A store that answers claims but accepts no results: the node stops claiming and loses nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pytest

from tests.e2e import shop
from tests.metrics.values import read
from tests.support.nodes import PATIENCE, NodeProcess, read_effects
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store
from windlass.worker.claimer import MAX_HELD_LEASES

pytestmark = pytest.mark.slow

WORKERS = 2
TASKS = 6_000


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


def metrics_of(node: NodeProcess) -> dict[str, float]:
    [address] = re.findall(r'/metrics at (http://[^\s"]+)', node.log)
    with urlopen(f"{address}/metrics", timeout=10) as answer:
        return read(answer.read())


def test_a_node_whose_results_are_not_written_stops_claiming_and_continues_afterward(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store, url: str
) -> None:
    assert TASKS > MAX_HELD_LEASES + WORKERS
    handles = shop.app.enqueue_many(shop.add.bind(number) for number in range(TASKS))
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a test wants this' USING ERRCODE = '40001'; END $$"
        )
        admin.execute(
            "CREATE TRIGGER fail BEFORE INSERT ON windlass.completed FOR EACH ROW EXECUTE FUNCTION public.fail()"
        )

        started = node("-n", str(WORKERS), "--async-tasks", "1", "--metrics", "0", workers=WORKERS)
        # Everything that the node may claim has run and waits to be written. More would be claimed within a moment.
        until(lambda: len(read_effects(effects, "add")) >= MAX_HELD_LEASES + WORKERS, "the bound is reached", PATIENCE)
        until(lambda: len(started.events("StoreCallFailed")) >= 2, "results are refused repeatedly", PATIENCE)
        leased = sum(count.tasks for count in shop_store.counts() if count.state is State.LEASED)
        ran = len(read_effects(effects, "add"))
        unwritten = metrics_of(started)["windlass_unwritten_ends"]
        admin.execute("DROP FUNCTION public.fail() CASCADE")

    assert leased == ran == unwritten == MAX_HELD_LEASES + WORKERS
    assert {handle.wait(PATIENCE) for handle in handles} == {State.COMPLETED}
    assert set(Counter(each["task"] for each in read_effects(effects, "add")).values()) == {1}, "nothing ran twice"
    assert started.process.poll() is None
