from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.dashboard.conftest import Browser
from tests.support.builders import NO_RETRY, a_task, claim_one, in_state, report, run, state_of, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Returned, Settlement
from windlass.core.task import NewTask
from windlass.dashboard.load_chart import add_steps
from windlass.dashboard.svg.timeline import find_segments
from windlass.dashboard.tracebacks import split_traceback
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/requests/api.py", line 59, in get
    return request("get", url)
           ^^^^^^^
  File "/usr/lib/python3.11/socket.py", line 1, in send
    self.x()
  File "/app/shop.py", line 45, in charge
    card.charge(cents)
KeyError: 'card' password=hunter2
"""


class Elements(HTMLParser):
    """The names of the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


BROKEN = Raised(Error(kind="KeyError", message="'card' password=hunter2", traceback=TRACEBACK), give_up=True)


def failed_mail(store: MemoryStore, **args: object) -> str:
    [id] = submit(store, a_task(handler="mail", args={"to": "ann", "n": 1, "pin": "4711", **args}, retry=NO_RETRY))
    run(store, BROKEN)
    return str(id)


async def test_a_failed_task_shows_its_error_with_library_frames_folded_and_secrets_hidden(
    browser: Browser, store: MemoryStore
) -> None:
    id = failed_mail(store)

    text = await browser.open(f"/tasks/{id}")

    assert re.search(r"<summary[^>]*>2 library frames</summary>", text)
    assert text.index('class="frame own"') > text.index("2 library frames")
    assert "card.charge(cents)" in text
    assert "hunter2" not in text
    assert "4711" not in text
    assert "[redacted], unchanged" in text
    assert "1 task with KeyError" in text
    assert "failed in attempt 1 with KeyError" in text
    assert text.count("password=[redacted]") == 1, "the error is shown once"


async def test_a_reason_that_no_attempt_shows_is_how_a_task_ended(browser: Browser, store: MemoryStore) -> None:
    id = submit_one(store)
    store.cancel([id], reason="the order was withdrawn")

    assert "cancelled: the order was withdrawn" in await browser.open(f"/tasks/{id}")


async def test_the_output_of_a_running_attempt_is_shown_and_moves_to_the_ended_ones(
    browser: Browser, store: MemoryStore
) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    long = "".join(f"line {number}\n" for number in range(1_200))

    silent = await browser.open(f"/tasks/{id}")
    store.record_output([(claim.lease, f"{long}password=hunter2 <b>\n")])
    printed = await browser.open(f"/tasks/{id}")
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, attempts=1, log="the end\n"))])
    ended = await browser.open(f"/tasks/{id}")

    assert "It has printed nothing yet." in silent
    shown = re.search(r"<pre [^>]*data-follow>(.*?)</pre>", printed, re.DOTALL)
    assert shown is not None
    lines = shown[1].splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("line 201", "password=[redacted] &lt;b&gt;", 1_000)
    assert "(the last 1,000 lines)" in printed
    assert "data-follow" not in ended
    assert "the end" in ended


async def test_eight_digits_of_an_id_are_enough_and_an_unknown_one_is_an_error_page(
    browser: Browser, store: MemoryStore
) -> None:
    id = failed_mail(store)

    assert id in await browser.open(f"/tasks/{id[-8:]}")
    assert (await browser.client.get("/tasks/00000000-0000-7000-8000-000000000000")).status_code == 404
    assert (await browser.client.get("/tasks/nonsense")).status_code == 422


async def test_retry_and_cancel_change_the_task_with_an_audit_entry(browser: Browser, store: MemoryStore) -> None:
    id = failed_mail(store)
    await browser.open(f"/tasks/{id}")

    await browser.post(f"tasks/{id}/retry", why="fixed in 81c2")
    assert "Retried the task." in browser.text
    await browser.post(f"tasks/{id}/retry")
    assert "Not retried: the task is runnable." in browser.text
    await browser.post(f"tasks/{id}/priority", priority="9")
    await browser.post(f"tasks/{id}/cancel", why="not needed")

    assert [entry.action for entry in store.audit(f"task/{id}", limit=9)] == [
        "cancelled",
        "changed",
        "retried",
    ]
    assert "fixed in 81c2" in browser.text


async def test_a_scheduled_task_can_run_now(browser: Browser, store: MemoryStore) -> None:
    id = submit_one(store, delay=timedelta(hours=1))
    await browser.open(f"/tasks/{id}")

    await browser.post(f"tasks/{id}/run-now")

    assert state_of(store, id) is State.RUNNABLE


async def test_edit_and_retry_submits_a_new_task_with_what_was_changed(browser: Browser, store: MemoryStore) -> None:
    id = failed_mail(store)
    await browser.open(f"/tasks/{id}")
    same = {"name": ["to", "n", "pin"], "was": ["ann", "1", ""]}

    wrong = await browser.post(f"tasks/{id}/edit", **same, value=["ann", "one", ""])
    assert (wrong.status_code, "not JSON" in wrong.text) == (422, True)
    await browser.open(f"/tasks/{id}")
    await browser.post(f"tasks/{id}/edit", **same, value=["bob", "2", ""])

    new = str(browser.page.url).rpartition("/")[2]
    assert new != id
    [claim] = [claim_one(store)]
    assert claim.args == '{"to":"bob","n":2,"pin":"4711"}', "the secret that was not changed is kept"


async def test_the_last_success_of_the_handler_is_compared(browser: Browser, store: MemoryStore) -> None:
    submit(store, a_task(handler="mail", args={"to": "ann", "n": 7}))
    run(store, Returned("null"))
    id = failed_mail(store)

    text = await browser.open(f"/tasks/{id}")

    assert "compared with the last success" in text
    assert re.search(r"args\.n</code></td><td><pre>1</pre></td><td><pre>7</pre>", text)
    assert "<code>args.to</code>" not in text


async def test_a_task_in_any_state_has_a_page_that_says_why(browser: Browser, store: MemoryStore) -> None:
    for state in State:
        id = in_state(store, state)
        text = await browser.open(f"/tasks/{id}")
        now = state_of(store, id)
        assert (
            "How did it end?" if now.final else "What is it doing?" if now is State.LEASED else "not running?"
        ) in text
        assert f's-{now.value}"' in text


def test_waiting_and_working_are_apart_in_the_timeline(store: MemoryStore, clock: ManualClock) -> None:
    id = submit_one(store)
    clock.advance(timedelta(seconds=5))
    claim = claim_one(store)
    clock.advance(timedelta(seconds=2))
    report(store, claim, Raised(Error(kind="E")))
    [task] = store.get([id])
    assert task is not None
    clock.advance(timedelta(seconds=1))

    segments = find_segments(task, store.attempts(id), clock.now())

    assert [(each.attempt, each.length // 1_000_000, each.open) for each in segments] == [
        (None, 5, False),
        (1, 2, False),
        (None, 1, True),
    ]


def test_text_that_is_no_traceback_is_kept_whole() -> None:
    assert [part.text for part in split_traceback("boom\n  at x")] == ["boom\n  at x"]
    assert split_traceback("") == []


def test_the_workers_of_several_pools_add_up() -> None:
    assert add_steps([[(0, 1.0), (10, 3.0)], [(0, None), (5, 2.0)]]) == [(0, None), (5, 3.0), (10, 5.0)]
    assert add_steps([]) == []


async def test_a_store_with_nothing_in_it_has_friendly_pages(browser: Browser) -> None:
    assert "Nothing here yet." in await browser.open("/")
    assert "No tasks yet." in await browser.open("/tasks")


async def test_the_palette_in_the_style_sheet_is_that_of_the_terminal() -> None:
    from windlass.operations.presentation import DARK, LIGHT

    css = Path("src/windlass/dashboard/static/windlass.css").read_text()

    for state in State:
        assert f"--{state.value}: light-dark({LIGHT.states[state]}, {DARK.states[state]});" in css
    for name in ("ground", "card", "ink", "quiet", "line", "brass"):
        assert f"--{name}: light-dark({getattr(LIGHT, name)}, {getattr(DARK, name)});" in css


async def test_hostile_text_is_shown_as_text(browser: Browser, store: MemoryStore) -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    [receipt] = store.submit(
        [NewTask(handler="mail", args={hostile: hostile, "to": "</textarea>" + hostile}, key=hostile)]
    )
    claim = claim_one(store)
    report(store, claim, Raised(Error(kind=hostile, message=hostile, traceback=TRACEBACK + hostile), give_up=True))

    for path in ("/", "/tasks", f"/tasks/{receipt.id}", f"/tasks?q={hostile}"):
        page = await browser.client.get(path)
        assert "<script>alert" not in page.text, path
        assert "<img src=x" not in page.text, path
        found = Elements()
        found.feed(page.text)
        assert found.names.isdisjoint({"img", "iframe"}), path
        assert not [name for name in found.attributes if name.startswith("on") or name == "style"], path
