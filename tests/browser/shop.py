"""The app of the nodes whose dashboard the browser tests open. Its texts try to break out of the page."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import windlass

app = windlass.App()

SCRIPT = "<script>alert('xss')</script>"
IMAGE = "<img src=x onerror=alert('xss')>"
BREAKOUT = "'\"></textarea></title><svg/onload=alert('xss')>{{7*7}}${7*7}"
LATER = windlass.Retry(retries=3, base=timedelta(hours=1))


class Broken(Exception):
    """Raised by the handler with the bug."""


@app.task(name="charge", queue="orders")
def charge(order: int) -> int:
    """Charge the card and return the amount in cents."""
    return order % 90 * 100 + 999


@app.task(name="pack", queue="orders")
def pack(order: int, cents: int) -> str:
    """Pack the goods."""
    windlass.current().log.info("packed %d %s", order, SCRIPT)
    sys.stdout.write(f"output {IMAGE}\n")
    return f"parcel-{order}-{cents}"


@app.task(name="ship", queue="orders")
def ship(parcel: str) -> str:
    """Ship the parcel."""
    return parcel + IMAGE


@app.task(name="render_invoice", queue="invoices", retries=0)
def render_invoice(order: int, note: str, token: str = "") -> str:
    """Write an invoice, unless the bug is still there."""
    if not control_file("fixed").exists():
        raise Broken(f"cannot render {SCRIPT} {IMAGE}")
    return f"{order}{note}{len(token)}"


@app.task(name="break_label", queue="invoices", retries=0)
def break_label(order: int) -> int:
    """Fail, except for a negative order."""
    return [order][0 if order < 0 else 1]


@app.task(name="send_mail", queue="mail", retry=LATER, downstream="bank")
def send_mail(to: str) -> None:
    """Fail at first, so that the task waits for its next attempt."""
    raise ConnectionError(f"cannot reach {to}")


@app.task(name="hold", queue="hold")
def hold(seconds: float = 600.0) -> None:
    """Run until the test opens the gate."""
    windlass.current().progress(0.4, f"waiting {IMAGE}")
    give_up_at = time.monotonic() + seconds
    while not control_file("gate").exists() and time.monotonic() < give_up_at:
        time.sleep(0.05)


@app.task(name="chat", queue="hold")
def chat() -> None:
    """Log a line whenever the test asks for more, until it says "end"."""
    log = windlass.current().log
    for number in range(60):
        log.info("line %s", number)
    order, printed = control_file("chat"), ""
    while printed != "end":
        wanted = order.read_text() if order.exists() else ""
        if wanted != printed:
            log.info("asked for %s %s", wanted, IMAGE)
            printed = wanted
        time.sleep(0.05)


@app.task(name="slice_work", queue="fair")
def slice_work(part: int) -> int:
    """Use some run time of a fair queue."""
    time.sleep(0.01)
    return part


@app.cron("30 2 * * *", tz="Europe/Berlin", name="nightly report")
def report() -> None:
    """Run at a time that some days do not have."""


@app.cron("0 6 * * 1-5", tz="America/New_York", name=f"weekday {IMAGE}")
def open_shop() -> None:
    """Run on weekdays."""


def control_file(name: str) -> Path:
    """Return a file with which the test controls handlers."""
    return Path(os.environ["WINDLASS_EFFECTS"]).with_name(name)
