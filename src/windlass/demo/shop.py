"""The handlers of the shop. Sleeping stands for waiting on other systems; one handler has a bug on purpose."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta

import windlass

app = windlass.App()


class CardDeclined(Exception):
    """The bank declined the card; a retry may succeed."""


@app.task(queue="orders")
def reserve(order: int) -> int:
    """Reserve the goods and return their number."""
    time.sleep(random.uniform(0.02, 0.06))
    return order % 4 + 1


@app.task(queue="orders", retry=windlass.Retry(retries=5, base=timedelta(seconds=0.5)), downstream="bank")
def charge(order: int) -> int:
    """Charge the card and return the amount in cents."""
    time.sleep(random.uniform(0.1, 0.3))
    if order % 6 == 0 and random.random() < 0.7:
        raise CardDeclined(f"order {order}: card declined, try again")
    return order % 90 * 100 + 999


@app.task(queue="orders")
def pack(order: int, goods: int) -> None:
    """Pack the goods."""
    time.sleep(0.08 * goods)


@app.task(queue="orders", retries=0)
def render_invoice(order: int, cents: int) -> str:
    """Write the invoice. Every 25th order triggers the bug."""
    time.sleep(random.uniform(0.02, 0.05))
    return f"order {order}: {cents} cents, {1_000_000 // (order % 25)} points"


@app.task(queue="orders")
async def ship(order: int) -> str:
    """Ship the parcel."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    return f"parcel-{order}"


@app.task(queue="mail", timeout="10s")
def send_mail(to: str) -> None:
    """Send a mail to a customer."""
    time.sleep(random.uniform(0.02, 0.08))


@app.task(queue="media")
def make_thumbnail(picture: int) -> None:
    """Make a thumbnail."""
    time.sleep(random.uniform(0.1, 0.3))


@app.task(queue="reports")
def export_ledger(tenant: str) -> int:
    """Add up the sales of a tenant."""
    for part in range(5):
        time.sleep(0.15)
        windlass.current().progress((part + 1) / 5)
    return random.randrange(1_000_000)


@app.cron("* * * * *")
def count_stock() -> None:
    """Count the stock, every minute."""
    time.sleep(0.1)
