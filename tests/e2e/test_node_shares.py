"""Tenants of a fair queue share the workers of two real nodes by weight and measured run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, at, await_effect
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.ordering import Queue
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow

SECONDS = {"long": 0.12, "short": 0.03, "heavy": 0.06}
WEIGHTS = {"long": 1, "short": 1, "heavy": 2}
TOLERANCE = 0.08
"""How far the share of a tenant may be off: about two tasks of each node, in three seconds of four workers."""


def test_tenants_share_two_nodes_by_weight_and_run_time(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    shop_store.configure(Queue(name="default", fair=True))
    heavy = encode_tenant(Tenant(weight=2, weight_set_by=SetBy(by="ops")))
    assert shop_store.put_control(TENANT, "heavy", heavy, expect=0)
    tenants: dict[str, str] = {}
    for tenant, seconds in SECONDS.items():
        calls = (shop.sleep.using(tenant=tenant).bind(seconds) for _ in range(250))
        tenants |= {str(handle.id): tenant for handle in shop.app.enqueue_many(calls)}

    for _ in range(2):
        node("-n", "2", workers=2)
    began = await_effect(effects, "began", 220)

    # Without the first ones, whose run times were not known yet.
    measured = sorted(began, key=at)[40:220]
    used: Counter[str] = Counter()
    for one in measured:
        used[tenants[one["task"]]] += SECONDS[tenants[one["task"]]]
    shares = {tenant: used[tenant] / sum(used.values()) for tenant in SECONDS}
    for tenant, weight in WEIGHTS.items():
        assert abs(shares[tenant] - weight / sum(WEIGHTS.values())) <= TOLERANCE, shares
