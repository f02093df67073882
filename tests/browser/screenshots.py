"""Makes the pictures of the documentation from a running demo: `python -m tests.browser.screenshots`.

The demo shop runs on a SQLite file until it fills the chart of five minutes, with some settings that people would
make. Run it by hand after a page has changed, on an idle machine, and look at the pictures before you commit them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, ViewportSize

from tests.browser.small_png import make_small_png
from tests.server.running import running
from tests.support.browser import find_browser, launch_browser
from tests.support.processes import ROOT, until
from windlass.core.lifecycle import State
from windlass.core.limits import Limit, parse_rate
from windlass.operations import dead_letters, limits, queues, tenants, workflows
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.crons import NewCron, create
from windlass.stores.protocol import Filter
from windlass.wiring import open_store

TRIAL = {"wait": "0.5s", "max": "2"}
"""What the Lab compares the pool with: another goal, and fewer workers than the load needs."""
SIZE: ViewportSize = {"width": 1200, "height": 760}
OPS = Author("ops", "nightly import")


HIDE_FOLDER = """([folder, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, shown);
}"""
"""Shows another folder in tracebacks than that of this machine."""


def main() -> None:
    """Run the demo, and write one picture for each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=330.0, help="how long the demo runs before the first picture")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="the folder of the pictures")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/shop.db"
        store = open_store(url)
        command = [sys.executable, "-m", "windlass", "demo", "--store", url, "--seconds", f"{options.seconds + 120:g}"]
        demo = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            access = Access(store)
            until(lambda: bool(store.handlers()), "the demo has started")
            set_up(access)
            time.sleep(options.seconds)
            with (
                running(store, dashboard=True, store_name="shop") as address,
                launch_browser(find_browser()) as browser,
            ):
                context = browser.new_context(viewport=SIZE, reduced_motion="reduce")
                take(context.new_page(), address, access, options.to)
                context.close()
        finally:
            demo.terminate()
            demo.wait(60)
            store.close()


def set_up(access: Access) -> None:
    """Set what people would set."""
    queues.change(access, "media", {"fair": True}, Author("ann", "one tenant must not block the others"))
    tenants.set_weight(access, "acme", 2, Author("ann", "gold plan"), create=True)
    limits.put(access, Limit(queue="reports", max_running=2), OPS, create=True)
    limits.put(access, Limit(handler="windlass.demo.shop.send_mail", rate=parse_rate("600/1m")), OPS)
    night = NewCron(
        name="nightly-ledger",
        handler="windlass.demo.shop.export_ledger",
        schedule="30 2 * * *",
        timezone="Europe/Berlin",
        args={"tenant": "acme"},
    )
    create(access, night, Author("ann", "asked for by accounting"))


def take(page: Page, address: str, access: Access, folder: Path) -> None:
    """Open every page and write its picture."""
    store = access.store
    group = dead_letters.get_all(access)[0].id
    failed = store.find(Filter(states=frozenset([State.FAILED])), limit=1).tasks[0].id
    found = workflows.find(access).workflows
    flow = next((each for each in found if each.tasks.get(State.LEASED)), found[0])
    shown = {
        "now": "?span=5m",
        "tasks": "tasks?" + urlencode({"q": "state:completed,failed,leased"}),
        "task": f"tasks/{failed}",
        "workflows": "workflows",
        "workflow": "workflows/view?" + urlencode({"name": flow.name, "tenant": flow.tenant}),
        "queues": "queues",
        "pool": "pool?name=shop",
        "cron": "cron",
        "dead-letters": "dead",
        "bug": f"dead/{group}",
        "lab": "lab",
        "audit": "audit",
        "settings": "settings",
    }
    for name, path in shown.items():
        page.goto(f"{address}/{path}")
        if name == "lab":
            page.select_option("form[action$='lab/run'] [name=since]", "5m")
            for field, value in TRIAL.items():
                page.fill(f"form[action$='lab/run'] [name={field}]", value)
            page.click("form[action$='lab/run'] button")
        page.wait_for_selector("#live-status[data-state=on]")
        write(page, folder / f"{name}.png")
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/{shown['now']}")
    page.wait_for_selector("#live-status[data-state=on]")
    write(page, folder / "now-dark.png")


def write(page: Page, path: Path) -> None:
    """Write a picture of what the page shows."""
    page.evaluate(HIDE_FOLDER, [str(ROOT), "/srv/shop"])
    blank = page.context.new_page()
    path.write_bytes(make_small_png(blank, page.screenshot()))
    blank.close()


if __name__ == "__main__":
    main()
