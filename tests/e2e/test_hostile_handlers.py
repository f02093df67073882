"""Handlers that misbehave: each ends as documented, its neighbors run exactly once, and the node keeps working.

All cases share a node with two workers. A case submits the hostile task and its neighbors in one batch, so that some
neighbors wait in the worker of the hostile task. Short tasks come first, because a node reads ahead only for those.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import hostile
from tests.support.nodes import PATIENCE, NodeProcess, as_given, await_effect, gone, read_effects
from tests.support.processes import open_store, until
from tests.support.servers import PostgresServer
from windlass.client.handle import Handle
from windlass.client.handlers import Bound
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store
from windlass.worker.tickets import encode_end
from windlass.worker.wire import MARK, MAX_FRAME, Done, RequestStop, encode_frame

pytestmark = pytest.mark.slow
NEIGHBORS = 16


@dataclass
class SharedNode:
    """A node, its store, and what its handlers did."""

    node: NodeProcess
    store: Store
    effects: Path

    def run(self, call: Bound[Any], within: float = 10) -> Handle[Any]:
        """Run a hostile call among neighbors, and check the neighbors; return the handle of the call."""
        for handle in hostile.app.enqueue_many([hostile.neighbor.bind(n) for n in range(NEIGHBORS)]):
            assert handle.wait(PATIENCE) is State.COMPLETED
        mine, *others = hostile.app.enqueue_many([call, *(hostile.neighbor.bind(n) for n in range(NEIGHBORS))])
        assert [handle.wait(within) for handle in others] == [State.COMPLETED] * NEIGHBORS
        runs = Counter(each["task"] for each in read_effects(self.effects, "neighbor"))
        assert [runs[str(handle.id)] for handle in others] == [1] * NEIGHBORS, "each runs exactly once"
        return mine

    def check(self) -> None:
        """Check that no lease and no process is left, and that the node works."""
        assert self.node.process.poll() is None
        assert hostile.neighbor.enqueue(7).result(PATIENCE) == 7
        until(lambda: not self._leased(), "nothing is leased", 10)
        until(lambda: self._processes() <= 3, "only the worker parent and two workers are left", 10)

    def error_kinds(self, handle: Handle[Any]) -> list[str]:
        errors = [attempt.error for attempt in self.store.attempts(handle.id)]
        return ["" if error is None else error.kind for error in errors]

    def _leased(self) -> int:
        return sum(count.tasks for count in self.store.counts() if count.state is State.LEASED)

    def _processes(self) -> int:
        return sum(not gone(process.pid) for process in self.node.descendants())


@pytest.fixture
def shared(sqlite_node: SharedNode) -> SharedNode:
    hostile.app.use_store(sqlite_node.store)
    return sqlite_node


@pytest.fixture
def postgres_node(shared_postgres_node: SharedNode) -> SharedNode:
    hostile.app.use_store(shared_postgres_node.store)
    return shared_postgres_node


@pytest.fixture(scope="module")
def sqlite_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNode]:
    yield from start(str(tmp_path_factory.mktemp("hostile") / "windlass.db"), tmp_path_factory.mktemp("effects"))


@pytest.fixture(scope="module")
def shared_postgres_node(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedNode]:
    name = postgres_server.create_database()
    yield from start(postgres_server.url(name), tmp_path_factory.mktemp("effects"))
    postgres_server.drop_database(name)


def start(url: str, folder: Path) -> Iterator[SharedNode]:
    store = open_store(url)
    effects = folder / "effects.jsonl"
    with NodeProcess(as_given(url), effects, "-n", "2", app="tests.e2e.hostile:app") as node:
        node.await_workers(2)
        yield SharedNode(node, store, effects)
    hostile.app.use_store(None)
    store.close()


def raw(body: bytes, length: int | None = None) -> bytes:
    """Return a frame with any body, and a length that may be wrong."""
    return MARK + (len(body) if length is None else length).to_bytes(4, "big") + body


STRAY = {
    "one byte": b"\n",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": b"\0" * 64,
    "a frame without the mark": b"\0\0\0\3abc",
    "a frame that is too large": raw(b"", MAX_FRAME + 1),
    "a body that is not msgpack": raw(b"\xc1\xc1\xc1"),
    "a body that is not UTF-8": raw(b"\x94\xa4Done\x01\xca\0\0\0\0\xa2\xff\xfe"),
    "a body nested too deeply": raw(b"\x94\xa5Hello\x01" + b"\x91" * 100_000),
    "a message that is not for the node": encode_frame(RequestStop(1)),
    "the end of an order that is not there": encode_frame(Done(999_999_999, 0.0)),
    "the end of an order after less than no time": encode_frame(Done(1, -1.0)),
}


@pytest.mark.parametrize("data", STRAY.values(), ids=STRAY)
def test_stray_bytes_on_the_socket_count_as_a_crash_of_the_worker(shared: SharedNode, data: bytes) -> None:
    handle = shared.run(hostile.write_bytes.bind(data.hex()))

    assert handle.wait(PATIENCE) is State.FAILED

    assert (handle.task().attempts, handle.task().crashes) == (0, 3)
    assert shared.error_kinds(handle) == ["WorkerDied"] * 3
    errors = [attempt.error for attempt in shared.store.attempts(handle.id)]
    assert all(error is not None and "broke the protocol" in error.message for error in errors)
    shared.check()


STRAY_ENDS = {
    "one byte": b"\n",
    "zeros": b"\0" * 64,
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "an attempt that is not there": encode_end(999_999_999, 0.0),
    "an attempt of less than no time": encode_end(1, -1.0),
}


@pytest.mark.parametrize("data", STRAY_ENDS.values(), ids=STRAY_ENDS)
def test_stray_bytes_in_the_pipe_of_ends_count_as_a_crash_of_the_worker(shared: SharedNode, data: bytes) -> None:
    handle = shared.run(hostile.write_bytes_to_pipes.bind(data.hex()))

    assert handle.wait(PATIENCE) is State.FAILED

    assert (handle.task().attempts, handle.task().crashes) == (0, 3)
    errors = [attempt.error for attempt in shared.store.attempts(handle.id)]
    assert all(error is not None and "broke the protocol" in error.message for error in errors)
    shared.check()


def test_the_end_of_an_attempt_is_never_written_to_a_file_of_the_handler(shared: SharedNode, tmp_path: Path) -> None:
    file = tmp_path / "file"

    handle = shared.run(hostile.replace_pipes.bind(str(file)))

    assert handle.wait(PATIENCE) is State.FAILED
    assert shared.error_kinds(handle) == ["WorkerDied"] * 3
    assert file.read_bytes() == b""
    shared.check()


@dataclass
class Case:
    """A hostile call and its expected outcome."""

    call: Bound[Any]
    state: State = State.COMPLETED
    attempts: int = 1
    crashes: int = 0
    kind: str = ""
    """The class of the error of each attempt."""
    outlived: bool = False
    """Whether it still runs when its neighbors have ended, because they did not wait for it."""


ONCE: Any = {"retries": 0}
LIMITED: Any = {"retries": 0, "timeout": 4}
CASES = {
    "an async handler that blocks the loop": Case(hostile.block_loop.bind(4), outlived=True),
    "holding the interpreter lock in C": Case(hostile.hold_interpreter.bind(4), outlived=True),
    "stopping the event loop": Case(hostile.stop_loop.bind()),
    "swallowing a soft timeout": Case(
        hostile.swallow.using(soft_timeout=0.5, **LIMITED).bind(), State.FAILED, kind="Timeout", outlived=True
    ),
    "swallowing a soft timeout on a loop that is blocked": Case(
        hostile.swallow_and_spin.using(soft_timeout=0.5, **LIMITED).bind(), State.FAILED, kind="Timeout", outlived=True
    ),
    "a worker that stops itself": Case(
        hostile.stop_process.using(**LIMITED).bind(), State.FAILED, kind="Timeout", outlived=True
    ),
    "an error whose text raises SystemExit": Case(
        hostile.raise_unprintable.using(**ONCE).bind("SystemExit"), State.FAILED, kind="Unprintable"
    ),
    "an error whose text raises KeyboardInterrupt": Case(
        hostile.raise_unprintable.using(**ONCE).bind("KeyboardInterrupt"), State.FAILED, kind="Unprintable"
    ),
    "an error whose text raises TypeError": Case(
        hostile.raise_unprintable.using(**ONCE).bind("TypeError"), State.FAILED, kind="Unprintable"
    ),
    "an error on the loop whose text raises SystemExit": Case(
        hostile.araise_unprintable.using(**ONCE).bind(), State.FAILED, kind="Unprintable"
    ),
    "an error whose text cannot be encoded": Case(
        hostile.raise_invalid_text.using(**ONCE).bind(), State.FAILED, kind="OSError"
    ),
    "an error whose text is of a class of its own": Case(
        hostile.raise_markup.using(**ONCE).bind(), State.FAILED, kind="OSError"
    ),
    "progress as a Decimal": Case(hostile.report_progress_as.bind("Decimal")),
    "progress as a bool": Case(hostile.report_progress_as.bind("bool")),
    "closing standard streams": Case(hostile.close_standard_streams.bind()),
    "printing much": Case(hostile.print_much.bind()),
    "the C stack ends": Case(hostile.exhaust_stack.bind(), State.FAILED, 0, 3, "WorkerDied"),
    "an exit handler that hangs": Case(
        hostile.exit_with_hanging_handler.using(**ONCE).bind("sys.exit"), State.FAILED, kind="SystemExit"
    ),
    "an exit handler that hangs in an interpreter that ends": Case(
        hostile.exit_with_hanging_handler.using(**LIMITED).bind("Py_Exit"), State.FAILED, kind="Timeout", outlived=True
    ),
    "os._exit": Case(hostile.leave.bind("os._exit"), State.FAILED, 0, 3, "WorkerDied"),
    "killing its process group": Case(hostile.leave.bind("kill the group"), State.FAILED, 0, 3, "WorkerDied"),
    "forking, and returning twice": Case(hostile.fork_and_return.bind()),
    "forking, and raising in the child": Case(hostile.fork_and_raise.bind()),
    "forking on the loop, and returning twice": Case(hostile.afork_and_return.bind()),
    "forking on the loop, and waiting twice": Case(hostile.afork_and_wait.bind()),
    "a daemon": Case(hostile.daemonize.bind(60)),
    "a fork bomb": Case(hostile.bomb.using(**LIMITED).bind(40), State.FAILED, kind="Timeout", outlived=True),
    "a thread that continues": Case(hostile.leave_thread.bind()),
    "stopping the parent": Case(hostile.signal_parent.bind(signal.SIGSTOP)),
    "terminating the parent": Case(hostile.signal_parent.bind(signal.SIGTERM)),
}
DESCRIPTORS = {
    "closing low descriptors": Case(hostile.close_descriptors.bind(3, 256)),
    "replacing low descriptors": Case(hostile.replace_descriptors.bind(3, 256)),
    "closing all descriptors": Case(hostile.close_descriptors.bind(3, 1_024), State.FAILED, 0, 3, "WorkerDied"),
    "replacing all descriptors": Case(hostile.replace_descriptors.bind(3, 1_000), State.FAILED, 0, 3, "WorkerDied"),
    "replacing the ticket queue": Case(hostile.replace_ticket_queue.bind()),
    "closing the descriptors of the loop": Case(
        hostile.aclose_descriptors.bind(3, 256), State.FAILED, 0, 3, "WorkerDied"
    ),
}


def run(shared: SharedNode, case: Case) -> None:
    handle = shared.run(case.call)
    if case.outlived:
        assert handle.state is State.LEASED, "the neighbors did not wait for it"

    assert handle.wait(PATIENCE) is case.state

    task = handle.task()
    assert (task.attempts, task.crashes) == (case.attempts, case.crashes)
    assert shared.error_kinds(handle) == [case.kind] * max(case.attempts, case.crashes)
    shared.check()


@pytest.mark.parametrize("case", [*CASES.values(), *DESCRIPTORS.values()], ids=[*CASES, *DESCRIPTORS])
def test_a_hostile_handler_harms_no_other_task(shared: SharedNode, case: Case) -> None:
    run(shared, case)


@pytest.mark.parametrize("case", DESCRIPTORS.values(), ids=DESCRIPTORS)
def test_a_hostile_handler_harms_no_other_task_on_postgres(postgres_node: SharedNode, case: Case) -> None:
    run(postgres_node, case)


def test_a_handler_that_ignores_its_cancel_is_killed_and_its_neighbors_did_not_wait(shared: SharedNode) -> None:
    handle = shared.run(hostile.swallow_and_spin.bind())

    handle.cancel()

    assert handle.wait(PATIENCE) is State.CANCELLED
    shared.check()


def test_a_soft_timeout_is_raised_after_another_handler_has_replaced_the_signal_handlers(shared: SharedNode) -> None:
    assert hostile.replace_signals.enqueue().wait(PATIENCE) is State.COMPLETED
    assert hostile.replace_signals.enqueue().wait(PATIENCE) is State.COMPLETED

    caught = hostile.catch_soft_limit.using(soft_timeout=0.2, timeout=10).enqueue()

    assert caught.result(PATIENCE) == "cleaned up"
    assert hostile.enqueue_in_child.enqueue().result(PATIENCE) == 7, "it can wait for its child"
    shared.check()


def test_a_process_forked_by_a_handler_cannot_call_the_node(shared: SharedNode) -> None:
    assert hostile.enqueue_in_child.enqueue().result(PATIENCE) == 7
    shared.check()


def test_a_handler_sees_and_changes_tasks_of_its_own_tenant_only(shared: SharedNode) -> None:
    theirs = hostile.neighbor.using(tenant="globex", delay="1h").enqueue(1)

    mine = hostile.look_around.using(tenant="acme", retries=0).enqueue(str(theirs.id))

    assert mine.result(PATIENCE) == ["enqueue for itself"]
    assert theirs.state is State.SCHEDULED
    theirs.cancel()
    shared.check()


def test_a_handler_that_floods_its_node_with_calls_harms_nobody(shared: SharedNode) -> None:
    handle = shared.run(hostile.flood_with_calls.bind(1_000))

    assert handle.wait(PATIENCE) is State.COMPLETED
    shared.check()


def test_a_worker_parent_that_a_handler_has_stopped_still_replaces_workers(shared: SharedNode) -> None:
    assert hostile.signal_parent.enqueue(signal.SIGSTOP).wait(PATIENCE) is State.COMPLETED

    crashes = hostile.leave.enqueue("os._exit")

    assert crashes.wait(PATIENCE) is State.FAILED
    assert crashes.task().crashes == 3
    shared.check()


def test_an_idle_worker_that_hangs_is_replaced_and_nothing_is_charged(shared: SharedNode) -> None:
    workers = [process.pid for process in shared.node.workers()]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)

    handles = hostile.app.enqueue_many([hostile.neighbor.bind(n) for n in range(NEIGHBORS)])

    assert [handle.wait(PATIENCE) for handle in handles] == [State.COMPLETED] * NEIGHBORS
    assert {handle.task().crashes for handle in handles} == {0}
    until(lambda: all(map(gone, workers)), "the stopped workers are gone", 10)
    shared.check()


def test_a_stray_process_lives_as_long_as_attempts_that_may_need_it(shared: SharedNode) -> None:
    """Two attempts run when the daemon is found, so it is ended after both."""
    began = len(read_effects(shared.effects, "began"))
    long = hostile.sleep.enqueue(4)
    await_effect(shared.effects, "began", began + 1)

    daemon = hostile.daemonize.enqueue(60).result(PATIENCE)
    until(lambda: gone(daemon), "the daemon is gone", 15)

    assert str(long.id) in {each["task"] for each in read_effects(shared.effects, "ended")}
    shared.check()
