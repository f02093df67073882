from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.nodes import NodeProcess, await_effect, read_effects
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
APP = "tests.e2e.clock_shop:app"


def test_two_nodes_fire_a_cron_once_for_each_nominal_time(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    for _ in range(2):
        node("-n", "1", app=APP)

    await_effect(effects, "ticked", 3)

    fired = Counter(each["key"] for each in read_effects(effects, "ticked"))
    assert set(fired.values()) == {1}
    [cron] = shop_store.crons()
    assert cron.fired is not None
