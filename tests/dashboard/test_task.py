from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.dashboard.conftest import Browser
from tests.support.builders import NO_RETRY, a_task, claim_one, in_state, report, run, state_of, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo, Manifest
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


async def test_the_downstream_of_a_task_leads_to_its_breaker(browser: Browser, store: MemoryStore) -> None:
    id = submit_one(store, downstream="bank")

    link = re.search(r'<dt>downstream</dt><dd><a href="([^"]+)">bank</a>', await browser.open(f"/tasks/{id}"))

    assert link is not None
    assert link[1] == "../queues#downstreams"


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
    same = {"name": ["to", "n", "pin"], "kind": ["text", "json", "text"]}

    wrong = await browser.post(f"tasks/{id}/edit", **same, value=["ann", "one", ""])
    assert (wrong.status_code, "not JSON" in wrong.text) == (422, True)
    await browser.open(f"/tasks/{id}")
    await browser.post(f"tasks/{id}/edit", **same, value=["bob", "2", ""])

    new = str(browser.page.url).rpartition("/")[2]
    assert new != id
    [claim] = [claim_one(store)]
    assert claim.args == '{"to":"bob","n":2,"pin":"4711"}', "the secret that was not changed is kept"


TYPES = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "color": {"$ref": "#/$defs/Color"},
        "size": {"enum": ["s", "m"]},
        "price": {"type": "string", "format": "decimal"},
    },
    "$defs": {"Color": {"title": "Color", "enum": ["red", "blue"]}},
}
LONG = "x" * 30_000


class Field(Struct):
    """A field of the form that edits arguments."""

    kind: str = ""
    text: str = ""
    placeholder: str = ""


class ArgumentForm(HTMLParser):
    """Reads the form that edits arguments, as a browser would."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, Field] = {}
        self._field: Field | None = None
        self._writes = False
        found = re.search(r'<form [^>]*action="[^"]*/edit".*?</form>', page, re.DOTALL)
        self.feed(found[0] if found else "")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("name") == "name":
            self._field = self.fields[given["value"] or ""] = Field()
        elif self._field and given.get("name") == "kind":
            self._field.kind = given["value"] or ""
        elif self._field and given.get("name") == "value":
            self._field.placeholder = given.get("placeholder") or ""
            self._writes = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._writes = False

    def handle_data(self, data: str) -> None:
        if self._writes and self._field:
            self._field.text += data if self._field.text else data.removeprefix("\n")

    def send(self, **edited: str) -> dict[str, list[str]]:
        """Return what a browser sends."""
        texts = [edited.get(name, field.text).replace("\n", "\r\n") for name, field in self.fields.items()]
        return {"name": list(self.fields), "kind": [field.kind for field in self.fields.values()], "value": texts}


async def edit_form(browser: Browser, store: MemoryStore, handler: str, args: Mapping[str, Any]) -> ArgumentForm:
    """Open the page of a failed task with these arguments."""
    submit(store, a_task(handler=handler, args=args, retry=NO_RETRY))
    id = run(store, BROKEN)
    return ArgumentForm(await browser.open(f"/tasks/{id}"))


async def resubmit(browser: Browser, store: MemoryStore, form: ArgumentForm, **edited: str) -> dict[str, Any]:
    """Send the form. Return the arguments of the new task."""
    answer = await browser.post(f"{browser.page.url.path}/edit", **form.send(**edited))
    assert answer.status_code == 200, answer.text[-600:]
    return json.loads(claim_one(store).args)


async def test_an_edited_argument_keeps_its_type_without_a_schema(browser: Browser, store: MemoryStore) -> None:
    args = {"n": 0, "b": True, "nothing": None, "f": 1.0, "to": "5", "list": [1, "a"], "same": {"a": 1.0}}
    form = await edit_form(browser, store, "untyped", args)

    assert [(name, field.kind) for name, field in form.fields.items()] == [
        *((name, "json") for name in ("n", "b", "nothing", "f")),
        ("to", "text"),
        *((name, "json") for name in ("list", "same")),
    ]
    edited = {"n": "1", "b": "false", "nothing": '"x"', "to": "6", "list": "[ ]"}
    new = await resubmit(browser, store, form, **edited)

    assert new == {**args, "n": 1, "b": False, "nothing": "x", "to": "6", "list": []}
    assert [type(new[name]) for name in ("n", "f")] == [int, float]
    assert (await edit_form(browser, store, "untyped", {"n": 0})).fields["n"].text == "0"


async def test_what_is_shown_for_each_type_can_be_sent_back(browser: Browser, store: MemoryStore) -> None:
    store.publish(Manifest(handlers=(HandlerInfo(name="typed", parameters=json.dumps(TYPES)),)))
    args = {"at": "2027-01-31T06:00:00Z", "note": "ann", "color": "red", "size": "s", "price": "9.90"}
    form = await edit_form(browser, store, "typed", args)

    assert {name: (field.kind, field.text) for name, field in form.fields.items()} == {
        "at": ("text", "2027-01-31T06:00:00Z"),
        "note": ("json", '"ann"'),
        "color": ("text", "red"),
        "size": ("text", "s"),
        "price": ("text", "9.90"),
    }
    assert "Color (red or blue) · text, without quotes" in browser.text
    assert "string or null · JSON, text in double quotes" in browser.text
    changed = {"at": "2027-02-01T06:00:00Z", "note": "null", "color": "blue", "size": "m", "price": "10"}
    assert await resubmit(browser, store, form, **changed) == {**changed, "note": None}


async def test_what_is_not_edited_stays_exactly_as_it_is_stored(browser: Browser, store: MemoryStore) -> None:
    args = {
        "n": 0,
        "long": LONG,
        "lines": "\none\ntwo\n",
        "windows": "one\r\ntwo",
        "bidi": "a\u202eb",
        "token": 4711,
        "login": {"user": "ann", "password": "hunter2"},
        "hint": "see [redacted]",
    }
    form = await edit_form(browser, store, "untyped", args)

    assert "long" not in form.fields
    assert "too long to edit here: the first 20,000 of 30,000 characters" in browser.text
    assert (form.fields["token"].kind, form.fields["token"].placeholder) == ("json", "[redacted], unchanged")
    assert form.fields["hint"].text == "see [redacted]"
    assert form.fields["windows"].text == '"one\\r\\ntwo"'
    assert form.fields["bidi"].text == '"a\\u202eb"'
    assert "hunter2" not in browser.text
    assert await resubmit(browser, store, form, n="1") == {**args, "n": 1}


async def test_edited_lines_and_secrets_are_sent_as_they_were_stored(browser: Browser, store: MemoryStore) -> None:
    args = {"lines": "one\ntwo", "windows": "one\r\ntwo", "token": 4711, "password": "hunter2"}
    form = await edit_form(browser, store, "untyped", args)

    edited = {"lines": "one\ntwo\nthree", "windows": '"one\\r\\n"', "token": "4712", "password": "0815"}
    assert await resubmit(browser, store, form, **edited) == {**edited, "windows": "one\r\n", "token": 4712}


async def test_a_form_does_not_reveal_whether_a_guessed_secret_is_right(browser: Browser, store: MemoryStore) -> None:
    form = await edit_form(browser, store, "untyped", {"password": "hunter2"})

    assert await resubmit(browser, store, form, password="hunter2") == {"password": "hunter2"}


async def test_an_edit_that_changes_nothing_or_is_too_long_is_refused(browser: Browser, store: MemoryStore) -> None:
    form = await edit_form(browser, store, "untyped", {"n": {"a": 1}, "long": LONG})
    path = f"{browser.page.url.path}/edit"

    for fields, problem in (
        (form.send(n='{ "a":1 }'), "nothing was changed"),
        ({"name": ["long"], "kind": ["text"], "value": ["x"]}, "cannot be edited here"),
        ({"name": ["other"], "kind": ["text"], "value": ["x"]}, "no argument"),
        ({"name": ["n"], "kind": ["json"], "value": []}, "incomplete"),
        ({"name": ["n"], "kind": ["json"], "value": ["x"]}, "not JSON"),
    ):
        await browser.open(path.removesuffix("/edit"))
        answer = await browser.post(path, **fields)
        assert (answer.status_code, problem in answer.text) == (422, True), problem


async def test_different_long_and_secret_arguments_are_different(browser: Browser, store: MemoryStore) -> None:
    args = {"long": LONG + "tail", "password": "hunter2", "login": {"user": "ann", "pwd": "a"}, "n": 1, "same": "s"}
    other = {"long": LONG + "Tail", "password": "other", "login": {"user": "bob", "pwd": "a"}, "n": "1", "same": "s"}
    submit(store, a_task(handler="untyped", args=other))
    run(store, Returned("null"))
    await edit_form(browser, store, "untyped", args)

    table = browser.text.partition('<table class="compare">')[2].partition("</table>")[0]
    rows = dict(re.findall(r"<tr><td><code>args\.(\w+)</code></td>(.*?)</tr>", table, re.DOTALL))
    assert rows.keys() == {"long", "password", "login", "n"}
    assert "differs (hidden)" in rows["password"]
    assert "ann" in rows["login"]
    assert "bob" in rows["login"]
    assert ("tail" in rows["long"], "Tail" in rows["long"], len(rows["long"]) < 2_000) == (True, True, True)
    assert rows["n"] == "<td><pre>1</pre></td><td><pre>&#34;1&#34;</pre></td>"
    assert "hunter2" not in browser.text


async def test_what_can_be_done_follows_the_state_of_a_watched_task(browser: Browser, store: MemoryStore) -> None:
    [id] = submit(store, a_task(handler="mail", args={"to": "ann"}, retry=NO_RETRY))
    regions = {"live_args": f"tasks/{id}/edit", "live_priority": f"tasks/{id}/priority"}

    for page in (await browser.open(f"/tasks/{id}"), run(store, BROKEN) and await browser.open(f"/tasks/{id}")):
        for region, path in regions.items():
            inside = page.partition(f'id="{region}">')[2]
            ended = "failed in attempt 1" in page
            assert (path in page) is (ended == (region == "live_args"))
            assert path not in page or inside.index(path) < inside.index("</form>")


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
