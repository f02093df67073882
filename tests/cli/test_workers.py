"""`windlass workers`."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.cli.conftest import Windlass, read
from tests.support.builders import SECOND, a_session
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.clock import ManualClock
from windlass.core.task import SessionId
from windlass.core.times import micros
from windlass.core.worker_list import RunningTask, StuckProcess, WorkerList, WorkerProcess, encode_workers
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
        "request": None,
    }


@pytest.fixture
def session(store: Store, clock: ManualClock) -> SessionId:
    """A node named box-1 with a busy worker 4 of pool mail."""
    session = store.open_session("box-1", about=json.dumps({"pools": {"mail": {"queues": ["mail"]}}}))
    worker = WorkerProcess(number=4, pool="mail", state="busy", since=clock.now(), pid=41)
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": PoolReport(queues=("mail",))})).decode())
    return session


def test_a_worker_is_drained_and_then_stopped(windlass: Windlass, store: Store, session: SessionId) -> None:
    drained = windlass("workers", "drain", "box-1", "4", "--why", "it leaks", "--by", "ada")
    shown = windlass("workers", "ls").stdout
    stopped = windlass("workers", "stop", str(session), "4", "--grace", "30s", "--by", "ada")

    assert "Worker 4 of box-1 drains: it finishes its running tasks and exits." in drained.stderr
    assert "busy, drain requested" in shown
    assert "Tasks that still run after 30s are released and run elsewhere." in stopped.stderr
    [node] = read(windlass("workers", "ls", "--json"))
    assert node["workers"][0]["request"] | {"at": ""} == {
        "verb": "stop",
        "grace_seconds": 30.0,
        "by": "ada",
        "at": "",
        "why": "",
    }
    assert [entry.text for entry in store.audit("node/box-1")] == [
        "worker 4 stopped by ada, with 30 s for running tasks",
        "worker 4 drained by ada: it leaks",
    ]


def test_a_whole_node_is_drained(windlass: Windlass, session: SessionId) -> None:
    drained = windlass("workers", "drain", "box-1", "--whole-node", "--why", "new kernel", "--by", "ada")

    assert "Node box-1 drains" in drained.stderr
    assert "the node was asked to drain by ada: new kernel" in windlass("workers", "ls").stdout


def test_processes_that_do_not_end_are_named(windlass: Windlass, store: Store, session: SessionId) -> None:
    stuck = tuple(StuckProcess(pid=pid, since=0) for pid in (41, 42))
    store.renew(session, workers=encode_workers(WorkerList(stuck=stuck[:1])))
    one = windlass("workers", "ls").stderr
    store.renew(session, workers=encode_workers(WorkerList(stuck=stuck)))
    two = windlass("workers", "ls").stderr

    assert "box-1: process 41 was killed and does not end" in one
    assert "box-1: processes 41, 42 were killed and do not end" in two
    [node] = read(windlass("workers", "ls", "--json"))
    assert node["stuck"][1] == {"pid": 42, "since": "1970-01-01T00:00:00Z"}


def test_no_whole_node_is_stopped_by_mistake(windlass: Windlass, store: Store, session: SessionId) -> None:
    for words in (["box-1"], ["box-1", "4", "--whole-node"]):
        for command in ("drain", "stop"):
            refused = windlass("workers", command, *words)
            assert refused.exit_code == 2
            assert "Give either the NUMBER of a worker or --whole-node." in refused.stderr
    assert store.audit() == []


def test_an_unknown_node_or_worker_is_refused_with_what_exists(windlass: Windlass, session: SessionId) -> None:
    node, worker = windlass("workers", "drain", "box-9", "1"), windlass("workers", "stop", "box-1", "9")

    assert (node.exit_code, worker.exit_code) == (4, 4)
    assert "The running nodes are 'box-1'." in node.stderr
    assert "Its workers are 4." in worker.stderr


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
