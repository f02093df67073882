from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.nodes import NodeProcess, await_effect, read_effects
from windlass.core.manifest import CronInfo
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
APP = "tests.e2e.clock_shop:app"


def test_two_nodes_fire_crons_in_code_and_of_run_time_once_for_each_nominal_time(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    for _ in range(2):
        node("-n", "1", app=APP)

    await_effect(effects, "ticked", 3)

    [cron] = shop_store.crons()
    late = CronInfo(name="late", handler=cron.info.handler, schedule="every 1s")
    created = shop_store.put_cron(late, expect=0)
    await_effect(effects, "ticked", len(read_effects(effects, "ticked")) + 5)

    fired = Counter(each["key"] for each in read_effects(effects, "ticked"))
    assert set(fired.values()) == {1}
    assert {key.split(":")[1] for key in fired} == {cron.info.name, "late"}
    assert cron.fired is not None
    [moved] = shop_store.crons("late")
    assert (moved.due or 0) > (created.due or 0)
