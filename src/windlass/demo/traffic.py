"""The shop's customers: three tenants who order more and less as time goes by, with a rush now and then."""

from __future__ import annotations

import random
import threading

from windlass.demo import shop

TENANTS = ("acme", "beta", "coda")
CALM, RUSH = 2.0, 26.0
"""Orders and other things a second."""
RUSHES = ((2.0, 12.0), (60.0, 68.0))
"""When they come, in seconds of each ninety."""
STEP = 0.1


class Traffic(threading.Thread):
    """Submits until it is told to stop; `submitted` counts the tasks that were acknowledged."""

    def __init__(self) -> None:
        super().__init__(name="demo-traffic", daemon=True)
        self.submitted = 0
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self._order = random.randrange(1_000, 9_000)
        self._owed = 0.0

    def run(self) -> None:
        """One step after the other, whatever the clock of this machine does."""
        passed = 0.0
        try:
            while not self.over.wait(STEP):
                passed += STEP
                self._owed += rate(passed) * STEP
                while self._owed >= 1 and not self.over.is_set():
                    self._owed -= 1
                    self.submitted += self._happen()
        except Exception as error:  # noqa: BLE001 - told to whoever ends the demo
            self.failure = error

    def _happen(self) -> int:
        """One customer does something; how many tasks that makes."""
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
    """An order: five steps, submitted whole or not at all."""
    with shop.app.workflow(f"fulfil-{order}", tenant=tenant) as steps:
        goods = steps.add(shop.reserve, order)
        cents = steps.add(shop.charge, order, after=[goods])
        packed = steps.add(shop.pack, order, goods, after=[cents])
        invoice = steps.add(shop.render_invoice, order, cents)
        steps.add(shop.ship, order, after=[packed, invoice])
    return 5


def rate(second: float) -> float:
    """How much happens at that second."""
    return RUSH if any(begin <= second % 90 < end for begin, end in RUSHES) else CALM
