"""Events and sleeps in workflows: nothing runs meanwhile, and the steps after them get the event's value."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import App, EventConflict, InvalidPayload, InvalidTask, NotAllowed, State
from windlass.clock import ManualClock
from windlass.core.waits import QUEUE
from windlass.testing import drain


@pytest.fixture
def shop(app: App) -> Any:
    class Shop:
        @app.task(name="draft")
        def draft() -> str:
            return "text"

        @app.task(name="publish")
        def publish(text: str, approval: dict[str, str] | None = None) -> list[Any]:  # noqa: N805
            return [text, approval]

    return Shop


def test_an_approval_releases_the_steps_after_it_with_its_value(app: App, shop: Any) -> None:
    with app.workflow("post:1") as wf:
        draft = wf.add(shop.draft)
        approved = wf.wait_for("approved", timeout="2d", after=[draft])
        published = wf.add(shop.publish, draft, approved)
    drain(app)
    assert (approved.state, published.state) == (State.SCHEDULED, State.WAITING)
    assert approved.task().queue == QUEUE

    assert app.events.set("post:1", "approved", {"by": "ada"}, by="ada", why="looks good")
    assert not app.events.set("post:1", "approved", {"by": "ada"})
    drain(app)

    assert published.result() == ["text", {"by": "ada"}]
    assert app.events.step("post:1", "approved").result() == approved.result() == {"by": "ada"}
    [entry] = app.store.audit("workflow/post:1")
    assert (entry.by, entry.text) == ("ada", "set event approved of workflow post:1 of default: looks good")
    with pytest.raises(EventConflict):
        app.events.set("post:1", "approved", {"by": "eve"})


def test_why_names_the_event_that_a_workflow_waits_for(app: App, shop: Any, clock: ManualClock) -> None:
    with app.workflow("post:1") as wf:
        approved = wf.wait_for("approved", timeout="2d")
        published = wf.add(shop.publish, "text", approved)

    gate = approved.why().closed
    assert gate is not None
    assert gate.name == "event"
    assert gate.text.startswith("waits for event approved of workflow post:1, times out at 2027-01-17 08:00")
    assert gate.fix == "windlass workflows signal post:1 approved"
    behind = published.why().closed
    assert behind is not None
    assert f"{approved.id} (waits for event approved)" in behind.text
    with app.workflow("post:2") as wf:
        forever, sleep = wf.wait_for("approved"), wf.sleep("1h")
    assert "without a time limit" in str(forever.why())
    assert "sleeps until 2027-01-15 09:00" in str(sleep.why())


def test_an_event_that_is_not_set_in_time_takes_the_steps_after_it_down(
    app: App, shop: Any, clock: ManualClock
) -> None:
    with app.workflow("post:1") as wf:
        approved = wf.wait_for("approved", timeout="2d")
        published = wf.add(shop.publish, "text", approved)
        reminded = wf.add(shop.publish, "late", approved, on_failure="run")

    drain(app, clock=clock, advance=True)

    assert (approved.state, published.state, reminded.result()) == (State.EXPIRED, State.CANCELLED, ["late", None])


def test_a_sleep_counts_from_the_end_of_what_comes_before_it(app: App, shop: Any, clock: ManualClock) -> None:
    with app.workflow("post:1") as wf:
        draft = wf.add(shop.draft.using(delay="1h"))
        sleep = wf.sleep("30m", after=[draft])
        published = wf.add(shop.publish, draft, after=[sleep])

    drain(app, clock=clock, advance=True)

    assert published.result() == ["text", None]
    assert sleep.result() is None
    began, ended = draft.task().finished, sleep.task().finished
    assert began is not None
    assert ended is not None
    assert timedelta(0) <= ended - began - timedelta(minutes=30) < timedelta(milliseconds=1)


def test_a_sleep_until_a_time_ends_at_that_time(app: App, clock: ManualClock) -> None:
    morning = datetime(2027, 1, 16, 9, tzinfo=UTC)
    with app.workflow("post:1") as wf:
        sleep = wf.sleep_until(morning)

    drain(app, clock=clock, advance=True)

    finished = sleep.task().finished
    assert finished is not None
    assert timedelta(0) <= finished - morning < timedelta(milliseconds=1)


def test_an_event_may_come_before_its_workflow(app: App, shop: Any) -> None:
    app.events.set("post:1", "approved", {"by": "ada"})

    with app.workflow("post:1") as wf:
        draft = wf.add(shop.draft)
        published = wf.add(shop.publish, draft, wf.wait_for("approved", after=[draft]))
    drain(app)

    assert published.result() == ["text", {"by": "ada"}]


def test_a_workflow_sets_its_own_events_and_waits_for_each_once(app: App, shop: Any) -> None:
    with app.workflow("post:1") as wf:
        first, second = wf.wait_for("approved", timeout="1h"), wf.wait_for("approved", timeout="60m")
        with pytest.raises(InvalidTask, match="approved"):
            wf.wait_for("approved", timeout="2h")
    assert first is second

    assert wf.set_event("approved", [1])
    assert asyncio.run(app.events.aset("post:1", "approved", [1])) is False

    assert first.result() == [1]


def test_a_handler_sets_an_event_in_the_name_of_its_task(app: App) -> None:
    @app.task(name="approve")
    def approve(workflow: str) -> bool:
        return app.events.set(workflow, "approved", why="automatic")

    with app.workflow("post:1") as wf:
        step = wf.wait_for("approved")
    handle = approve.enqueue("post:1")
    drain(app)

    assert (handle.result(), step.state) == (True, State.COMPLETED)
    assert app.store.audit("workflow/post:1")[0].by == f"task {handle.id}"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda wf: wf.wait_for("two words"), "event="),
        (lambda wf: wf.wait_for("ok", timeout="soon"), "timeout="),
        (lambda wf: wf.wait_for("ok", timeout=-1), "timeout="),
        (lambda wf: wf.wait_for("ok", on_failure="maybe"), "on_failure="),
        (lambda wf: wf.sleep("a while"), "length="),
        (lambda wf: wf.sleep(timedelta(days=9_999)), "length="),
        (lambda wf: wf.sleep_until(datetime(2026, 1, 1)), "until="),  # noqa: DTZ001
    ],
)
def test_wrong_waits_are_refused(app: App, wrong: Any, text: str) -> None:
    with pytest.raises(InvalidTask, match=text), app.workflow("w") as wf:
        wrong(wf)

    assert app.store.counts() == []


def test_wrong_events_are_refused(app: App) -> None:
    with pytest.raises(InvalidTask, match="event="):
        app.events.set("w", "")
    with pytest.raises(InvalidTask, match="workflow="):
        app.events.set("", "ok")
    with pytest.raises(InvalidPayload, match="value: a object"):
        app.events.set("w", "ok", object())
    with pytest.raises(InvalidPayload, match="value: 300,002 bytes"):
        app.events.set("w", "ok", "x" * 300_000)
    with app.workflow("closed") as wf:
        pass
    with pytest.raises(NotAllowed, match="already submitted"):
        wf.sleep("1h")
    assert app.store.counts() == []
