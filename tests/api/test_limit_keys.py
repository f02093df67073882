"""Handlers declare the keys of limits; the arguments of each task fill them in."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from windlass import App, InvalidTask, Secret
from windlass.core.limits import MAX_KEY
from windlass.core.task import Rate, Rules

MINUTE = timedelta(minutes=1)


def rules_of(app: App, id: UUID) -> Rules:
    return app.handle(id).task().rules


@pytest.fixture
def charge(app: App) -> Any:
    @app.task(name="charge", limit="customer:{customer_id}", max_running=1, rate="10/1m")
    def charge(customer_id: int | str, cents: int = 0) -> None: ...

    return charge


def test_the_arguments_of_each_task_fill_in_its_key(app: App, charge: Any) -> None:
    ids = [charge.enqueue(42).id, charge.enqueue(customer_id="ann", cents=5).id, asyncio.run(charge.aenqueue(7)).id]
    ids += [handle.id for handle in app.enqueue_many([charge.bind(8)])]

    found = [rules_of(app, id) for id in ids]

    assert [rules.limit for rules in found] == ["customer:42", "customer:ann", "customer:7", "customer:8"]
    assert {(rules.max_running, rules.rate) for rules in found} == {(1, Rate(10, MINUTE))}


def test_one_task_may_have_another_limit_or_none(app: App, charge: Any) -> None:
    more = rules_of(app, charge.using(max_running=3, rate=None).enqueue(42).id)
    other = rules_of(app, charge.using(limit="cents:{customer_id}", rate=Rate(2, MINUTE)).enqueue(42).id)
    none = rules_of(app, charge.using(limit=None).enqueue(42).id)

    assert (more.limit, more.max_running, more.rate) == ("customer:42", 3, None)
    assert (other.limit, other.max_running, other.rate) == ("cents:42", 1, Rate(2, MINUTE))
    assert (none.limit, none.max_running, none.rate) == (None, None, None)


def test_steps_of_a_workflow_have_keys(app: App, charge: Any) -> None:
    with app.workflow("nightly") as wf:
        step = wf.add(charge, 42)

    assert rules_of(app, step.id).limit == "customer:42"


def test_a_result_that_is_not_known_yet_cannot_be_part_of_a_key(app: App, charge: Any) -> None:
    with pytest.raises(InvalidTask, match=r"customer_id=.* is a dict"), app.workflow("nightly") as wf:
        wf.add(charge, wf.add(charge, 42))


def test_the_manifest_has_the_template(app: App, charge: Any) -> None:
    new = charge.info().new_task({"customer_id": 9})

    assert (new.limit, new.max_running, new.rate) == ("customer:9", 1, Rate(10, MINUTE))


@pytest.mark.parametrize("template", ["k:{unknown}", "k:{cents}", "k:{rest}", "k:{", 7])
def test_an_invalid_template_is_refused_when_the_handler_is_decorated(app: App, template: Any) -> None:
    with pytest.raises(InvalidTask, match="limit="):

        @app.task(limit=template, max_running=1)
        def charge(customer_id: int, *rest: int, cents: int = 0) -> None: ...

    assert not app.handlers


def test_an_invalid_template_is_refused_by_using(charge: Any) -> None:
    with pytest.raises(InvalidTask, match=r"\{cents\} is not a parameter without a default.*customer_id"):
        charge.using(limit="k:{cents}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": "k"}, "give max_running, a rate, or both"),
        ({"max_running": 1}, "need a key"),
        ({"limit": "k", "max_running": -1}, "max_running=-1"),
        ({"limit": "k", "rate": "fast"}, "rate='fast'"),
        ({"limit": "k", "rate": 10}, "rate=10"),
    ],
)
def test_invalid_amounts_are_refused_when_the_handler_is_decorated(app: App, options: Any, says: str) -> None:
    with pytest.raises(InvalidTask, match=says):
        app.task(name="h", **options)(lambda: None)


def test_a_key_that_is_too_long_is_refused(charge: Any) -> None:
    with pytest.raises(InvalidTask, match=f"limit=.*1 to {MAX_KEY} printable"):
        charge.enqueue("x" * MAX_KEY)


def test_other_arguments_of_a_handler_may_be_part_of_a_key(app: App) -> None:
    @app.task(name="open", limit="k:{region}", max_running=1)
    def work(**more: Any) -> None: ...

    assert rules_of(app, work.enqueue(region="eu").id).limit == "k:eu"
    with pytest.raises(InvalidTask, match="pass the argument region"):
        work.enqueue(other=1)


def test_a_secret_is_never_part_of_a_key(app: App) -> None:
    @app.task(name="pay", limit="card:{card}", max_running=1)
    def pay(card: Secret[str]) -> None: ...

    with pytest.raises(InvalidTask, match="card is a secret"):
        pay.enqueue("4111")
