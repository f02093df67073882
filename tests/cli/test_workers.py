"""`windlass workers`."""

from __future__ import annotations

import json

import msgspec

from tests.cli.conftest import Windlass, read
from tests.support.builders import SECOND, a_session
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.clock import ManualClock
from windlass.core.times import micros
from windlass.core.worker_list import RunningTask, WorkerList, WorkerProcess, encode_workers
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

    rows = windlass("workers", "ls").stdout.splitlines()

    assert rows[0] == "node   pool  queues      workers  running  last seen  notes"
    assert sorted(rows[1:]) == [
        "box-1  bulk  bulk            1/1        0  2 s ago    1 worker died",
        "box-1  mail  mail, news      3/4        2  2 s ago    1 starting, 2 slots each",
        "box-2  p     q                 –        –  2 s ago    no report yet",
    ]


def test_lost_nodes_are_listed_with_all(windlass: Windlass, store: Store) -> None:
    store.close_session(store.open_session("ended"))
    store.open_session("here")

    alive = read(windlass("workers", "ls", "--json"))
    everything = read(windlass("workers", "ls", "--all", "--json"))

    assert [node["node"] for node in alive] == ["here"]
    assert {node["node"]: node["lost"] for node in everything} == {"here": False, "ended": True}
    assert "lost" in windlass("workers", "ls", "--all").stdout


def test_without_nodes_a_note_explains_how_to_start_one(windlass: Windlass) -> None:
    assert "windlass worker APP" in windlass("workers", "ls").stderr


def test_worker_processes_are_listed_with_their_tasks(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    session, began = store.open_session("box-1"), clock.now()
    task = RunningTask(id="00000000-0000-7000-8000-000000000001", handler="shop.pay", since=began)
    busy = WorkerProcess(
        number=1,
        pool="mail",
        state="busy",
        since=began - micros(3 * SECOND),
        pid=41,
        memory=64 << 20,
        tasks_run=1_200,
        running=3,
        tasks=(task,),
    )
    starting = WorkerProcess(number=2, pool="mail", state="starting", since=began)
    store.renew(session, workers=encode_workers(WorkerList(workers=(busy, starting), more=7)))
    clock.advance(2 * SECOND)

    found = windlass("workers", "ls")
    [node] = read(windlass("workers", "ls", "--json"))

    assert found.stdout.splitlines()[-3:] == [
        "node   worker  pid  pool  state     for  memory  tasks run  running",
        "box-1       1   41  mail  busy      5 s  64 MiB      1,200  "
        "shop.pay 00000000-0000-7000-8000-000000000001 (2 s), and 2 more",
        "box-1       2    –  mail  starting  2 s       –          0  –",
    ]
    assert "box-1: 7 more workers not listed" in found.stderr
    assert (node["workers_not_listed"], node["workers"][1]["pid"], node["workers"][1]["memory_bytes"]) == (
        7,
        None,
        None,
    )
    assert node["workers"][0] | {"since": ""} == {
        "number": 1,
        "pid": 41,
        "pool": "mail",
        "state": "busy",
        "since": "",
        "memory_bytes": 64 << 20,
        "tasks_run": 1_200,
        "running": 3,
        "tasks": [{"id": task.id, "handler": "shop.pay", "since": "2027-01-15T12:00:00Z"}],
    }


def test_a_lost_node_has_no_workers(windlass: Windlass, store: Store) -> None:
    session = store.open_session("ended")
    worker = WorkerProcess(number=1, pool="mail", state="idle", since=0)
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    store.close_session(session)

    [node] = read(windlass("workers", "ls", "--all", "--json"))

    assert (node["lost"], node["workers"]) == (True, [])


def test_workers_over_http_are_listed(windlass: Windlass, store: Store) -> None:
    about = {"queues": ["mail", "post"], "pools": None, "handlers": None, "tags": [], "slots": 4}
    a_session(store, "over-http", about=json.dumps(about))

    listed = windlass("workers", "ls")

    assert listed.exit_code == 0, listed.output
    [line] = [line for line in listed.stdout.splitlines() if "over-http" in line]
    assert "mail, post" in line
    assert "worker over HTTP, 4 slots" in line
