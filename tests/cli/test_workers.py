"""`windlass workers`."""

from __future__ import annotations

import msgspec

from tests.cli.conftest import Windlass, read
from tests.support.builders import SECOND
from windlass.autoscale.reports import NodeReport, PoolReport
from windlass.clock import ManualClock
from windlass.stores.protocol import Store

REPORT = NodeReport(
    pools={
        "mail": PoolReport(queues=("mail", "news"), target=4, ready=3, starting=1, running=2, threads=2),
        "bulk": PoolReport(queues=("bulk",), target=1, ready=1, deaths=1),
    }
)


def test_nodes_are_listed_with_their_pools(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    session = store.open_session("box-1")
    store.report(session, msgspec.json.encode(REPORT).decode())
    store.open_session("box-2", about='{"pools": {"p": {"queues": ["q"]}}}')
    clock.advance(2 * SECOND)

    said = windlass("workers", "ls").stdout.splitlines()

    assert said[0] == "node   pool  queues      workers  running  heard of  notes"
    assert sorted(said[1:]) == [
        "box-1  bulk  bulk            1/1        0  2 s ago   1 worker died",
        "box-1  mail  mail, news      3/4        2  2 s ago   1 starting, 2 slots each",
        "box-2  p     q                 –        –  2 s ago   has not reported yet",
    ]


def test_nodes_that_went_are_shown_when_asked_for(windlass: Windlass, store: Store) -> None:
    store.close_session(store.open_session("gone"))
    store.open_session("here")

    alive = read(windlass("workers", "ls", "--json"))
    every = read(windlass("workers", "ls", "--all", "--json"))

    assert [node["node"] for node in alive] == ["here"]
    assert {node["node"]: node["lost"] for node in every} == {"here": False, "gone": True}
    assert "gone" in windlass("workers", "ls", "--all").stdout


def test_without_a_node_it_says_how_to_start_one(windlass: Windlass) -> None:
    assert "windlass worker APP" in windlass("workers", "ls").stderr
