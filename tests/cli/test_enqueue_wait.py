"""`windlass enqueue --wait` without a node."""

from __future__ import annotations

from tests.cli.conftest import Windlass
from tests.support.builders import a_session
from windlass.stores.protocol import Store


def test_waiting_says_when_no_node_is_alive(windlass: Windlass, store: Store) -> None:
    command = ("enqueue", "mail", "to=ann", "--wait", "--wait-timeout", "50ms")

    alone = windlass(*command)
    a_session(store, "box-1")
    served = windlass(*command)

    assert (alone.exit_code, "No node is alive" in alone.stderr) == (7, True)
    assert (served.exit_code, "No node is alive" in served.stderr) == (7, False)
