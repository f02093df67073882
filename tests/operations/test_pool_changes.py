"""Changes to pools: what is written, and what is refused with the name and value of the field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.operations.test_pools import a_store, report_of
from windlass.autoscale import pool_tick
from windlass.autoscale.stored_state import PoolOverrides, decode_document
from windlass.clock import ManualClock
from windlass.errors import ChangedMeanwhile, InvalidTask, UnknownPool
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """A store with one node that has the pool `mail`."""
    return a_store(clock, mail=report_of(target=2))


def stored(store: MemoryStore) -> PoolOverrides:
    [control] = store.controls("order")
    return decode_document(control.value, PoolOverrides)


def test_a_size_is_set_for_an_hour_with_author_and_reason(store: MemoryStore, clock: ManualClock) -> None:
    pools.set_size(Access(store), "mail", 12, author=Author("ann", "a sale"))

    override = stored(store).override
    assert override is not None
    assert (override.min, override.max, override.author, override.why) == (12, 12, "ann", "a sale")
    assert override.until == clock.now() / 1e6 + 3_600
    [entry] = store.audit("pool/mail")
    assert (entry.action, entry.by, entry.text) == ("set", "ann", "set to 12 by ann for 1:00:00: a sale")
    assert decode_document(entry.data, PoolOverrides) == stored(store)


def test_a_range_is_set_without_an_end(store: MemoryStore, clock: ManualClock) -> None:
    pools.set_size(Access(store), "mail", 2, 8, author=Author("ann"), lasts=None)
    clock.advance(timedelta(days=400))

    override = stored(store).override
    assert override is not None
    assert (override.min, override.max) == (2, 8)
    assert override.is_active(clock.now() / 1e6)
    assert store.audit("pool/mail")[0].text == "set to 2 to 8 by ann until it is resumed"


def test_an_expired_override_is_not_shown(store: MemoryStore, clock: ManualClock) -> None:
    pools.set_size(Access(store), "mail", 5, author=Author("ann"), lasts="10s")
    assert pools.get(Access(store), "mail").override is not None

    clock.advance(timedelta(seconds=10))

    assert pools.get(Access(store), "mail").override is None


def test_a_freeze_keeps_the_current_size_until_a_resume(store: MemoryStore) -> None:
    order = pools.freeze(Access(store), "mail", author=Author("ann"))

    assert order.override is not None
    assert (order.override.min, order.override.max) == (2, 2)
    assert "frozen" in store.audit("pool/mail")[0].text
    assert pools.resume(Access(store), "mail", author=Author("bob")).override is None


def test_a_pause_shows_its_author_until_a_resume(store: MemoryStore, clock: ManualClock) -> None:
    pools.pause(Access(store), "mail", author=Author("ann", "a migration"))
    paused = pools.get(Access(store), "mail").paused
    pools.resume(Access(store), "mail", author=Author("bob", "done"))

    assert paused is not None
    assert (paused.by, paused.why, paused.at) == ("ann", "a migration", clock.now())
    assert pools.get(Access(store), "mail").paused is None
    assert [(entry.action, entry.by) for entry in store.audit("pool/mail")] == [("resumed", "bob"), ("paused", "ann")]


def test_a_pause_keeps_the_override_and_tuned_settings(store: MemoryStore) -> None:
    pools.set_size(Access(store), "mail", 5, author=Author("ann"))
    pools.tune(Access(store), "mail", {"wait": "2s"}, author=Author("ann"))
    pools.pause(Access(store), "mail", author=Author("ann"))

    assert stored(store).override is not None
    assert stored(store).tuned == {"wait": 2.0}
    pools.resume(Access(store), "mail", author=Author("ann"))
    assert stored(store).tuned == {"wait": 2.0}, "settings are no order to end"


def test_settings_are_tuned_together_and_restored_one_by_one(store: MemoryStore) -> None:
    pools.tune(
        Access(store),
        "mail",
        {"wait": "1m30s", "max": 12, "deciders": ["slo", "due"]},
        author=Author("ann", "peak"),
    )
    tuned = stored(store).tuned
    shown = pools.get(Access(store), "mail")
    pools.tune(Access(store), "mail", {"max": None}, author=Author("ann"))

    assert tuned == {"wait": 90.0, "max": 12, "deciders": ["slo", "due"]}
    assert (shown.wait, shown.max) == (90.0, 12)
    assert stored(store).tuned == {"wait": 90.0, "deciders": ["slo", "due"]}
    assert pools.get(Access(store), "mail").max == 8
    assert "wait = 90.0, max = 12" in store.audit("pool/mail")[1].text
    assert "max = as the nodes say" in store.audit("pool/mail")[0].text


@pytest.mark.parametrize(
    ("order", "named"),
    [
        (lambda store: pools.set_size(Access(store), "mail", -1, author=Author("ann")), ["size", "-1"]),
        (lambda store: pools.set_size(Access(store), "mail", 5, 3, author=Author("ann")), ["size", "5..3"]),
        (lambda store: pools.set_size(Access(store), "mail", 10_001, author=Author("ann")), ["size", "10001"]),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann"), lasts="soon"), ["for", "'soon'"]),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann"), lasts="0s"), ["for", "'0s'"]),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann"), lasts=-3), ["for", "-3"]),
        (
            lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann"), lasts="99999w"),
            ["for", "'99999w'"],
        ),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann", "x" * 501)), ["why", "xxx"]),
        (
            lambda store: pools.set_size(Access(store), "mail", 5, author=Author("ann", "two\nlines")),
            ["why", "two\\nlines"],
        ),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("y" * 200)), ["by", "yyy"]),
        (lambda store: pools.set_size(Access(store), "mail", 5, author=Author("")), ["by", "''"]),
        (lambda store: pools.freeze(Access(store), "mail", author=Author("ann"), lasts="ever"), ["for", "'ever'"]),
        (lambda store: pools.pause(Access(store), "mail", author=Author("ann", "x" * 501)), ["why", "xxx"]),
        (lambda store: pools.resume(Access(store), "mail", author=Author("")), ["by", "''"]),
    ],
)
def test_an_invalid_change_is_refused_and_nothing_is_written(
    store: MemoryStore, order: Callable[[MemoryStore], object], named: list[str]
) -> None:
    with pytest.raises(InvalidTask) as refused:
        order(store)

    assert [word for word in named if word not in str(refused.value)] == []
    assert (store.controls("order"), store.audit("pool/mail")) == ([], [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("colour", "red"),
        ("wait", "soon"),
        ("wait", 0),
        ("wait", -1),
        ("wait", True),
        ("wait", float("nan")),
        ("wait", float("inf")),
        ("late", 1),
        ("late", "some"),
        ("min", -1),
        ("min", 2.5),
        ("min", "many"),
        ("max", 10_001),
        ("service", 0),
        ("service", float("nan")),
        ("service", float("inf")),
        ("idle", -1),
        ("idle", float("nan")),
        ("idle", float("inf")),
        ("deciders", []),
        ("deciders", ["slo", "oracle"]),
        ("deciders", "slo"),
        ("windows", "always"),
        ("windows", [{"begin": 9, "end": 17}]),
        ("windows", [{"begin": 9, "end": float("nan"), "min": 3}]),
    ],
)
def test_an_invalid_setting_is_refused_by_name_and_value(store: MemoryStore, field: str, value: Any) -> None:
    pools.pause(Access(store), "mail", author=Author("ann"))
    before = stored(store)

    with pytest.raises(InvalidTask) as refused:
        pools.tune(Access(store), "mail", {field: value}, author=Author("ann"))

    assert field in str(refused.value)
    shown = value[-1] if isinstance(value, list) and value and isinstance(value[-1], str) else value
    assert value == [] or field in ("colour", "windows") or str(shown) in str(refused.value)
    assert stored(store) == before


def test_schedule_windows_are_tuned_without_ending_a_pause(store: MemoryStore) -> None:
    pools.pause(Access(store), "mail", author=Author("ann"))

    pools.tune(
        Access(store),
        "mail",
        {"windows": [{"begin": 0, "end": 3_600, "min": 3}], "deciders": ["schedule"]},
        author=Author("b"),
    )

    order, _ = pool_tick.read_overrides(pools.look_at(store), "mail")
    assert order.paused is not None
    [window] = pool_tick.resolve_settings({"1": report_of()}, order).windows
    assert (window.begin, window.end, window.min) == (0, 3_600, 3)


def test_a_minimum_above_the_maximum_is_refused_in_a_second_change(store: MemoryStore) -> None:
    pools.tune(Access(store), "mail", {"max": 3}, author=Author("ann"))

    with pytest.raises(InvalidTask, match="min=5 is above max=3"):
        pools.tune(Access(store), "mail", {"min": 5}, author=Author("ann"))


@pytest.mark.parametrize(
    "order",
    [
        lambda store: pools.set_size(Access(store), "post", 3, author=Author("ann")),
        lambda store: pools.freeze(Access(store), "post", author=Author("ann")),
        lambda store: pools.pause(Access(store), "post", author=Author("ann")),
        lambda store: pools.resume(Access(store), "post", author=Author("ann")),
        lambda store: pools.tune(Access(store), "post", {"wait": 1}, author=Author("ann")),
    ],
)
def test_a_change_of_an_unknown_pool_is_refused(store: MemoryStore, order: Callable[[MemoryStore], object]) -> None:
    with pytest.raises(UnknownPool, match=r"post.*mail"):
        order(store)


def test_concurrent_changes_are_both_kept(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put, others = store.put_control, [lambda: pools.tune(Access(store), "mail", {"wait": 2}, author=Author("bob"))]

    def late(*args: Any, **kwargs: Any) -> bool:
        if others:
            others.pop()()
        return put(*args, **kwargs)

    monkeypatch.setattr(store, "put_control", late)
    pools.set_size(Access(store), "mail", 5, author=Author("ann"))

    assert stored(store).tuned == {"wait": 2}
    assert stored(store).override is not None
    assert [entry.by for entry in store.audit("pool/mail")] == ["ann", "bob"]


def test_a_change_that_always_conflicts_is_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "put_control", lambda *_args, **_kwargs: False)

    with pytest.raises(ChangedMeanwhile, match="mail"):
        pools.set_size(Access(store), "mail", 5, author=Author("ann"))


def test_settings_are_stored_as_plain_json(store: MemoryStore) -> None:
    pools.tune(Access(store), "mail", {"wait": timedelta(seconds=90)}, author=Author("ann"))

    [control] = store.controls("order")
    assert msgspec.json.decode(control.value) == {"tuned": {"wait": 90.0}}
