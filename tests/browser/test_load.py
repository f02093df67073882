"""Fifty open tabs while 500 tasks per second run: what they cost the server, and whether pages fall behind."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.browser.conftest import Visit
from tests.browser.site import Site
from tests.support.builders import a_session, a_task, complete
from tests.support.processes import ROOT
from windlass.core.lifecycle import State
from windlass.operations.access import Access
from windlass.operations.tasks import find
from windlass.stores.protocol import Filter, Store
from windlass.wiring import open_store

TABS, PER_SECOND, SECONDS = 50, 500, 30.0
MOST_PER_TAB = 0.02
"""The share of a core that one open tab may cost the server."""
PAGES = ("", "tasks", "tasks?q=state%3Acompleted", "queues", "queues/default")
"""Pages that change with every task."""


@pytest.mark.soak
def test_fifty_tabs_follow_500_tasks_a_second(visit: Visit, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    store = open_store(url)
    with serving(url) as (process, address), tasks_running(store) as ran:
        before = measure(process, 10.0)
        with open_tabs(address) as received:
            began, first = time.monotonic(), ran()
            during = measure(process, SECONDS)
            rate = (ran() - first) / (time.monotonic() - began)
            visitor = visit(Site(address, store, tmp_path))
            visitor.open("tasks?q=state%3Acompleted")
            lag = measure_lag(visitor.page.inner_text, store)
    store.close()

    per_tab = (during - before) / TABS
    fewest = min(received.values(), default=0)
    report = (
        f"{per_tab:.2%} of a core per tab ({before:.0%} without tabs, {during:.0%} with {TABS}), {rate:.0f} tasks/s, "
        f"the page is {lag:.1f} s behind, at least {fewest} updates of each tab in {SECONDS:g} s"
    )
    sys.stdout.write(f"\n{report}\n")
    assert len(received) == TABS
    assert fewest >= 2, sorted(received.items(), key=lambda each: each[1])[:12]
    assert per_tab < MOST_PER_TAB, report
    assert rate > 0.9 * PER_SECOND, report
    assert lag < 5.0


@contextmanager
def serving(url: str) -> Iterator[tuple[psutil.Process, str]]:
    """Run `windlass server` in another process."""
    command = [sys.executable, "-m", "windlass", "server", "--store", url, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield psutil.Process(process.pid), found[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextmanager
def tasks_running(store: Store) -> Iterator[Callable[[], int]]:
    """Submit and complete tasks at a steady rate, in another thread. Yields a function that counts them."""
    over, counts = threading.Event(), [0]

    def run() -> None:
        session, due = a_session(store), time.monotonic()
        while not over.is_set():
            store.submit([a_task() for _ in range(PER_SECOND // 10)])
            complete(store, *store.claim(session, ["default"], limit=PER_SECOND))
            counts[0] += PER_SECOND // 10
            store.renew(session)
            due += 0.1
            over.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: counts[0]
    finally:
        over.set()
        thread.join()


@contextmanager
def open_tabs(address: str) -> Iterator[dict[str, int]]:
    """Follow pages as open tabs do. Yields the number of updates of each tab."""
    received: dict[str, int] = {}
    over = threading.Event()

    def follow(number: int) -> None:
        page = PAGES[number % len(PAGES)]
        with httpx.Client(timeout=60) as client:
            client.get(f"{address}/{page}").raise_for_status()
            received[f"{number} {page}"] = 0
            depth = 2 if "/" in page else 1
            with client.stream("GET", f"{address}/live", params={"page": page, "depth": depth}) as stream:
                for line in stream.iter_lines():
                    received[f"{number} {page}"] += line == "event: regions"
                    if over.is_set():
                        break

    threads = [threading.Thread(target=follow, args=(number,), daemon=True) for number in range(TABS)]
    for thread in threads:
        thread.start()
    try:
        yield received
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def measure(process: psutil.Process, seconds: float) -> float:
    """Return the share of a core that a process uses for some time."""
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / seconds


def measure_lag(read: object, store: Store) -> float:
    """Return how many seconds pass until the page has counted what the store has now."""
    assert callable(read)
    total = sum(count.tasks for count in store.counts() if count.state is State.COMPLETED)
    began = time.monotonic()
    while int(re.sub(r"\D", "", str(read("#live_total h2")))) < total:
        assert time.monotonic() - began < 30, "the page falls behind"
        time.sleep(0.1)
    assert find(Access(store), Filter(), limit=1).tasks
    return time.monotonic() - began
