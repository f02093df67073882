"""A rolling upgrade, seen by the nodes that are not upgraded yet: the database is migrated while they work."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.migrations import LATEST, dialect_of, migrate_later, widening
from tests.support.nodes import PATIENCE, NodeProcess, as_given
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


def test_old_nodes_work_on_and_start_on_the_next_schema_but_not_on_the_one_after(
    url: str, effects: Path, shop_store: Store
) -> None:
    latest = LATEST[dialect_of(url)]
    with ExitStack() as nodes:
        running = nodes.enter_context(NodeProcess(as_given(url), effects, "-n", "1"))
        running.await_workers()
        assert shop.add.enqueue(1).result(PATIENCE) == 2

        migrate_later(url, widening(dialect_of(url)))

        assert shop.add.enqueue(2).result(PATIENCE) == 3, "a node that runs continues"
        running.kill()
        restarted = nodes.enter_context(NodeProcess(as_given(url), effects, "-n", "1"))
        restarted.await_workers()
        assert shop.add.enqueue(3).result(PATIENCE) == 4, "a node that crashed starts again"

        migrate_later(url, widening(dialect_of(url)), "SELECT 1")

        late = nodes.enter_context(NodeProcess(as_given(url), effects, "-n", "1"))
        assert late.process.wait(PATIENCE) not in (0, None)
        assert f"The database has schema {latest + 2}" in late.log
        assert f"This program is for schema {latest}. Upgrade Windlass" in late.log
        assert restarted.terminate() == 0
