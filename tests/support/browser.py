"""A real Chromium for tests, driven by Playwright. The browser is the machine's own: nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class BrowserMissing(RuntimeError):
    """No Chromium was found on the machine."""


def find_browser() -> str:
    """Return the path of the machine's Chromium: that of `WINDLASS_BROWSER`, or the first on the path."""
    given = os.environ.get("WINDLASS_BROWSER")
    found = next(filter(None, map(shutil.which, (given,) if given else NAMES)), None)
    if found is None:
        raise BrowserMissing(f"no browser: {given or ', '.join(NAMES)} not found")
    return found


@contextmanager
def launch_browser(path: str) -> Iterator[Browser]:
    """Start a headless Chromium with a profile of its own, which is removed afterwards.

    An event loop counts as running in this thread until the block ends, so asyncio cannot be used in it.
    """
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses its sandbox to root.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *sandbox])
        try:
            yield browser
        finally:
            browser.close()
