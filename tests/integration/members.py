"""Functions that the integration tests run in other processes; see `tests/support/processes.py`."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import apsw

from tests.support.builders import a_task, submit, submit_one
from tests.support.processes import Controller, open_store
from windlass.errors import StoreError, StoreUnavailable
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.sqlite import SQLiteStore

T = TypeVar("T")
LONG = timedelta(seconds=30)
MOMENT = timedelta(milliseconds=1)


def opener(test: Controller, url: str) -> str:
    """Opens a store as soon as the test says so, and uses it once."""
    test.send("ready")
    test.receive()
    store = open_store(url)
    try:
        return str(submit_one(store))
    finally:
        store.close()


def waiter(test: Controller, url: str) -> bool:
    """Waits for work in one call, and says whether it was woken."""
    store = open_store(url)
    try:
        test.send("waiting")
        return store.wait_for_work(["default"], LONG)
    finally:
        store.close()


def submitter(test: Controller, url: str, name: str, tasks: int) -> int:
    """Submits tasks one by one, each with a key of its own."""
    store = open_store(url)
    test.send("ready")
    test.receive()
    try:
        for number in range(tasks):
            submit(store, a_task(key=f"{name}-{number}"))
        return tasks
    finally:
        store.close()


def endless_submitter(test: Controller, url: str, name: str) -> None:
    """Submits pairs of tasks and says after each that it is acknowledged, until it is killed."""
    store = open_store(url)
    number = 0
    while True:
        submit(store, a_task(key=f"{name}-{number}-a"), a_task(key=f"{name}-{number}-b"))
        test.send(number)
        number += 1


def claimer_that_stops(test: Controller, url: str) -> int:
    """Claims, and stops itself when the statement is on its way but the end of its pipeline is not."""
    store = PostgresStore(url)
    statements = iter(["claim"])

    def lease(tx: Transaction, statement: str, batch: Sequence[Values] | None, **how: Any) -> Sequence[Values]:
        answer = tx.query(statement, batch, **how)
        if statement in statements:  # once
            test.send(os.getpid())
            os.kill(os.getpid(), signal.SIGSTOP)
        return answer.rows()

    store.lease = lease
    try:
        return len(store.claim(store.open_session("paused"), ["default"], 10))
    finally:
        store.close()


def sqlite_lock_holder(test: Controller, path: str) -> None:
    """Another program that has begun to write to the file, and is in no hurry."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO count_delta (queue, tenant, state, tasks) VALUES ('half', 'half', 'runnable', 1)")
    test.send("locked")
    test.receive()
    connection.execute("ROLLBACK")
    connection.close()


def forker(test: Controller, url: str, tasks: int) -> list[int]:
    """Forks with a store that has been used; parent and child go on with it at once. The children's exit statuses."""
    store = open_store(url)
    submit(store, a_task(key="before"))
    store.wait_for_work(["nothing"], MOMENT)
    children = [_fork(lambda name=name: _submit_some(store, name, tasks)) for name in ("child-1", "child-2")]
    _submit_some(store, "parent", tasks)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    _submit_some(store, "parent-after", tasks)
    store.close()
    return statuses


def crowd(test: Controller, url: str, processes: int, tasks: int) -> list[int]:
    """Forks processes that each open a store and submit tasks, again and again until they are taken. Exit statuses."""

    def child(name: str) -> None:
        store = _until_available(lambda: open_store(url))
        for number in range(tasks):
            _until_available(lambda number=number: submit(store, a_task(key=f"{name}-{number}")))
        store.close()

    children = [_fork(lambda n=n: child(str(n))) for n in range(processes)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _until_available(call: Callable[[], T]) -> T:
    while True:
        with suppress(StoreUnavailable):
            return call()


def forker_that_closes_first(test: Controller, url: str) -> int:
    """Forks; the parent closes its store while the child still uses its own. The child's exit status."""
    store = open_store(url)
    submit(store, a_task(key="before"))
    used, use = os.pipe()
    closed, close = os.pipe()

    def child() -> None:
        os.close(close)
        submit(store, a_task(key="child, before the parent closed"))
        os.close(use)
        os.read(closed, 1)
        submit(store, a_task(key="child, after the parent closed"))

    pid = _fork(child)
    os.close(use)
    os.read(used, 1)  # It ends when the other side is closed, as it also is by a child that fails.
    store.close()
    os.close(close)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def waiter_with_a_child(test: Controller, url: str) -> bool:
    """Waits for work after a child that had the same store has closed it, and says whether it was woken."""
    store = open_store(url)
    store.wait_for_work(["default"], MOMENT)
    os.waitpid(_fork(store.close), 0)
    store.wait_for_work(["default"], MOMENT)  # A store that is closed wakes everybody for the last time.
    test.send("waiting")
    try:
        return store.wait_for_work(["default"], LONG)
    finally:
        store.close()


def forker_that_is_killed(test: Controller, path: str) -> None:
    """Begins to write, forks a child that never touches the store, and waits to be killed."""
    store = open_store(path)
    with store._db._using() as link, link.writing():
        link.execute("count", [("half", "half", "runnable", 1, None, None, None, None)])
        test.send(_fork(signal.pause))
        test.receive()


def forker_while_busy(test: Controller, path: str) -> tuple[int, str]:
    """Forks while another thread is inside the store; the child then tries to use it. What the child says of it."""
    store = open_store(path)
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with store._db._using() as link, link.writing():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    reader, writer = os.pipe()

    def child() -> None:
        try:
            submit(store, a_task(key="child"))
        except StoreError as error:
            os.write(writer, str(error).encode())

    pid = _fork(child)
    os.close(writer)
    with os.fdopen(reader) as words:
        text = words.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    leave.set()
    thread.join()
    submit(store, a_task(key="parent"))
    store.close()
    return status, text


def _submit_some(store: Store, name: str, tasks: int) -> None:
    for number in range(tasks):
        submit(store, a_task(key=f"{name}-{number}"))


def _fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:  # noqa: BLE001 - the end of the child: its errors must be visible
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def sqlite_writer(test: Controller, path: str) -> None:
    """A process of ours in the middle of a write, which it ends when it is asked to."""
    store = SQLiteStore(path)
    test.send("open")
    test.receive()

    def work(_tx: object) -> None:
        test.send("writing")
        test.receive()

    store._db.transact(work)
    store.close()
