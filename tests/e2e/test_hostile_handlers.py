"""Handlers that misbehave: each ends as documented, its neighbors run exactly once, and its node is unhurt.

All cases share a node of two workers. A case submits the hostile task and its neighbors in one batch, so that some of
the neighbors wait in the worker of the hostile task. Short tasks come first: a node reads ahead only for those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import hostile
from tests.support.nodes import PATIENCE, NodeProcess, as_given, read_effects
from tests.support.processes import open_store, until
from windlass.core.lifecycle import State
from windlass.handle import Handle
from windlass.handlers import Bound
from windlass.stores.protocol import Store
from windlass.worker.wire import MARK, MAX_FRAME, Done, Quit, frame

pytestmark = pytest.mark.slow
NEIGHBORS = 16


@dataclass
class Floor:
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
        runs = Counter(said["task"] for said in read_effects(self.effects, "neighbor"))
        assert [runs[str(handle.id)] for handle in others] == [1] * NEIGHBORS, "each runs exactly once"
        return mine

    def check(self) -> None:
        """Nothing is left leased, no process is left over, and the node works."""
        assert self.node.process.poll() is None
        assert hostile.neighbor.enqueue(7).result(PATIENCE) == 7
        until(lambda: not self._leased(), "nothing is leased", 10)
        until(lambda: self._processes() <= 3, "only the nursery and two workers are left", 10)

    def error_kinds(self, handle: Handle[Any]) -> list[str]:
        errors = [attempt.error for attempt in self.store.attempts(handle.id)]
        return ["" if error is None else error.kind for error in errors]

    def _leased(self) -> int:
        return sum(count.tasks for count in self.store.counts() if count.state is State.LEASED)

    def _processes(self) -> int:
        return len(self.node.descendants())


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """One node for all cases that do not need their own."""
    yield from start(str(tmp_path_factory.mktemp("hostile") / "windlass.db"), tmp_path_factory.mktemp("effects"))


def start(url: str, folder: Path) -> Iterator[Floor]:
    store = open_store(url)
    hostile.app.use_store(store)
    effects = folder / "effects.jsonl"
    with NodeProcess(as_given(url), effects, "-n", "2", app="tests.e2e.hostile:app") as node:
        node.await_workers(2)
        yield Floor(node, store, effects)
    hostile.app.use_store(None)
    store.close()


def raw(body: bytes, length: int | None = None) -> bytes:
    """A frame with any body, and a length that need not be its own."""
    return MARK + (len(body) if length is None else length).to_bytes(4, "big") + body


STRAY = {
    "one byte": b"\n",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": b"\0" * 64,
    "a frame without the mark": b"\0\0\0\3abc",
    "a frame that is too large": raw(b"", MAX_FRAME + 1),
    "a body that is no msgpack": raw(b"\xc1\xc1\xc1"),
    "a body that is not UTF-8": raw(b"\x94\xa4Done\x01\xca\0\0\0\0\xa2\xff\xfe"),
    "a body nested too deeply": raw(b"\x94\xa5Hello\x01" + b"\x91" * 100_000),
    "a message that is not for the node": frame(Quit()),
    "the end of an order that is not there": frame(Done(999_999_999, 0.0)),
    "the end of an order after less than no time": frame(Done(1, -1.0)),
}


@pytest.mark.parametrize("data", STRAY.values(), ids=STRAY)
def test_stray_bytes_on_its_socket_are_a_workers_crash(floor: Floor, data: bytes) -> None:
    handle = floor.run(hostile.write_bytes.bind(data.hex()))

    assert handle.wait(PATIENCE) is State.FAILED

    assert (handle.task().attempts, handle.task().crashes) == (0, 3)
    assert floor.error_kinds(handle) == ["WorkerDied"] * 3
    errors = [attempt.error for attempt in floor.store.attempts(handle.id)]
    assert all(error is not None and "broke the protocol" in error.message for error in errors)
    floor.check()
