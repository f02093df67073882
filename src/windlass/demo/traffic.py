"""The customers of the shop: three tenants whose load changes over time, with a rush now and then."""

from __future__ import annotations

import random
import threading

from windlass.demo import shop

TENANTS = ("acme", "beta", "coda")
CALM, RUSH = 2.0, 26.0
"""Actions per second."""
RUSHES = ((2.0, 12.0), (60.0, 68.0))
"""Start and end of each rush, in seconds of a 90-second cycle."""
STEP = 0.1


class Traffic(threading.Thread):
    """Submits tasks until `over` is set; `submitted` counts the acknowledged tasks."""

    def __init__(self) -> None:
        super().__init__(name="demo-traffic", daemon=True)
        self.submitted = 0
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self._order = random.randrange(1_000, 1_000_000)
        self._due = 0.0

    def run(self) -> None:
        """Submit tasks step by step, independent of the clock."""
        passed = 0.0
        try:
            while not self.over.wait(STEP):
                passed += STEP
                self._due += rate(passed) * STEP
                while self._due >= 1 and not self.over.is_set():
                    self._due -= 1
                    self.submitted += self._act()
        except Exception as error:  # noqa: BLE001 - reported at the end of the demo
            self.failure = error

    def _act(self) -> int:
        """Do what one customer does and return the number of tasks."""
        tenant, dice = random.choice(TENANTS), random.random()
        if dice < 0.25:
            self._order += 1
            return place(self._order, tenant)
        if dice < 0.65:
            shop.send_mail.using(tenant=tenant).enqueue(f"customer-{random.randrange(1_000)}@example.com")
        elif dice < 0.95:
            shop.make_thumbnail.using(tenant=tenant, priority=-1).enqueue(random.randrange(1_000))
        else:
            shop.export_ledger.using(tenant=tenant, deadline="20s").enqueue(tenant)
        return 1


def place(order: int, tenant: str) -> int:
    """Place an order: a workflow of five steps. Return the number of tasks."""
    with shop.app.workflow(f"fulfil-{order}", tenant=tenant) as steps:
        goods = steps.add(shop.reserve, order)
        cents = steps.add(shop.charge, order, after=[goods])
        packed = steps.add(shop.pack, order, goods, after=[cents])
        invoice = steps.add(shop.render_invoice, order, cents)
        steps.add(shop.ship, order, after=[packed, invoice])
    return 5


def rate(second: float) -> float:
    """Return the actions per second at a time."""
    return RUSH if any(begin <= second % 90 < end for begin, end in RUSHES) else CALM
