"""F40: a process is stopped in the middle of a write to the SQLite file of a node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e import shop
from tests.integration import members
from tests.support.nodes import PATIENCE, NodeProcess, stopped
from tests.support.processes import ProcessGroup, until

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["sqlite"], indirect=True)]


def test_a_node_takes_a_stopped_writer_for_an_outage_and_continues_after_it(
    node: Callable[..., NodeProcess], url: str
) -> None:
    here = node("-n", "1")
    assert shop.add.enqueue(1, 2).result(PATIENCE) == 3

    with ProcessGroup() as group:
        writer = group.start(members.sqlite_writer, path=url)
        writer.receive()
        writer.send("go")
        writer.receive()
        with stopped(writer.pid):
            until(lambda: f"kill -CONT {writer.pid}" in here.log, "the node says who keeps it", PATIENCE)
        writer.send("enough")
        writer.receive()

        assert shop.add.enqueue(3, 4).result(PATIENCE) == 7
