"""Errors name tasks as the caller did: by key, by id, or by position in the batch."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from tests.support.builders import HOUR, SECOND, a_task, after, all_tasks, submit
from windlass.clock import entropy
from windlass.core import admission
from windlass.core.ids import fresh_id
from windlass.core.ordering import Queue
from windlass.core.task import NewTask, TaskId
from windlass.errors import (
    CycleFound,
    DuplicateTask,
    InvalidTask,
    KeyConflict,
    NotAllowed,
    QueueFull,
    UnknownPrerequisite,
    WindlassError,
)
from windlass.stores.protocol import Store

UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


def made_id() -> TaskId:
    return fresh_id(1_700_000_000_000_000, entropy(1)())


def refusal_of(store: Store, *tasks: NewTask) -> str:
    """Return the words in which a batch is refused. Nothing of it may be stored."""
    before = all_tasks(store)
    with pytest.raises(WindlassError) as refused:
        store.submit(tasks)
    assert all_tasks(store) == before
    return str(refused.value)


def test_an_unknown_prerequisite_is_named_by_its_key_and_by_the_task_that_waits_for_it(store: Store) -> None:
    text = refusal_of(store, after("pack-7", "charge-7", workflow="order"))

    assert text.startswith("Unknown prerequisite of 'pack-7': 'charge-7'. Submit it first")


def test_unknown_prerequisites_of_many_tasks_are_counted(store: Store) -> None:
    with pytest.raises(UnknownPrerequisite) as refused:
        store.submit([a_task(key="ok"), *(after(f"pack-{n}", "ok", f"charge-{n % 30}") for n in range(50))])

    assert str(refused.value).startswith("Unknown prerequisite of 'pack-0' and 49 more: 'charge-0', 'charge-1'")
    assert "… (30 in total)" in str(refused.value)
    assert len(refused.value.ids) == 30
    assert refused.value.waiting[-1] == "pack-49"


def test_an_id_that_the_caller_gave_stays_an_id(store: Store) -> None:
    mine, nobody = made_id(), made_id()

    with pytest.raises(UnknownPrerequisite) as refused:
        store.submit([a_task(id=mine, prerequisites=[nobody, "nobody"])])

    assert refused.value.ids == (nobody, "nobody")
    assert f"Unknown prerequisite of {mine}: {nobody}, 'nobody'" in str(refused.value)


def test_a_task_without_key_and_id_is_named_by_its_position(store: Store) -> None:
    text = refusal_of(store, a_task(), a_task(prerequisites=["nobody"]))

    assert text.startswith("Unknown prerequisite of tasks[1]: 'nobody'")


def test_a_cycle_is_reported_by_keys_in_the_order_in_which_they_wait(store: Store) -> None:
    text = refusal_of(store, after("a", "b"), after("b", "c"), after("c", "a"))

    assert text in {f"cycle of prerequisites: {' → '.join(way)}" for way in ("abca", "bcab", "cabc")}


def test_a_cycle_of_ids_is_reported_by_ids(store: Store) -> None:
    one, two = made_id(), made_id()

    with pytest.raises(CycleFound) as refused:
        store.submit([a_task(id=one, prerequisites=[two]), a_task(id=two, prerequisites=[one])])

    assert set(refused.value.cycle) == {one, two}


def test_a_long_cycle_is_shortened(store: Store) -> None:
    text = refusal_of(store, *(after(f"step-{n}", f"step-{(n + 1) % 500}") for n in range(500)))

    assert "… (500 tasks)" in text
    assert len(text) < 500
    assert not UUID_TEXT.search(text)


def test_a_cycle_through_stored_tasks_is_reported_by_keys(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    submit(store, after("a", "c", workflow="w"), after("b", "a", workflow="w"))

    assert refusal_of(store, after("c", "b", workflow="w")) == "cycle of prerequisites: c → b → a → c"


def test_a_cycle_through_stored_tasks_without_keys_is_reported_by_ids(store: Store) -> None:
    store.open_workflow("w", forward=HOUR)
    mine = made_id()
    submit(store, a_task(id=mine, prerequisites=["late"], workflow="w"))

    assert refusal_of(store, after("late", mine, workflow="w")) == f"cycle of prerequisites: late → {mine} → late"


def test_duplicates_are_named_by_key_or_id(store: Store) -> None:
    mine = made_id()

    with pytest.raises(DuplicateTask) as refused:
        store.submit([a_task(key="k"), a_task(id=mine), a_task(key="k"), a_task(id=mine)])

    assert refused.value.ids == ("k", mine)
    assert f"Duplicate task: 'k', {mine}." in str(refused.value)


def test_a_conflict_names_the_keys(store: Store) -> None:
    submit(store, a_task(key="k"), a_task(key="l"))

    with pytest.raises(KeyConflict) as refused:
        store.submit([a_task(key="l", handler="other"), a_task(key="new"), a_task(key="k", handler="other")])

    assert refused.value.keys == ("l", "k")
    assert not UUID_TEXT.search(str(refused.value))


def test_a_full_queue_is_named(store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=1))

    with pytest.raises(QueueFull, match="'mail'"):
        store.submit([a_task(queue="mail"), a_task(queue="mail")])


def test_too_many_forward_references_name_the_workflow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_PLACEHOLDERS", 3)
    store.open_workflow("nightly", forward=HOUR)
    submit(store, after("a", "x", "y", workflow="nightly"))
    submit(store, after("b", "x", "z", workflow="nightly"))

    assert "workflow 'nightly' has more than 3 open forward references" in refusal_of(
        store, after("c", "x", "q", workflow="nightly")
    )


def test_a_workflow_that_cannot_be_sealed_yet_is_named(store: Store) -> None:
    store.open_workflow("nightly", sealed=False, forward=HOUR)
    submit(store, after("a", "x", workflow="nightly"))

    with pytest.raises(NotAllowed, match="'nightly'") as refused:
        store.seal_workflow("nightly")
    assert not UUID_TEXT.search(str(refused.value))


def test_a_bad_field_in_a_batch_says_in_which_task(store: Store) -> None:
    with pytest.raises(InvalidTask) as refused:
        store.submit([a_task(), a_task(key="k", timeout=-SECOND), a_task()])

    assert refused.value.index == 1
    assert refused.value.__notes__ == ["in tasks[1] of a batch of 3"]


def test_a_bad_field_of_a_single_task_has_no_index(store: Store) -> None:
    with pytest.raises(InvalidTask) as refused:
        store.submit([a_task(timeout=-SECOND)])

    assert refused.value.index is None


def test_text_that_looks_like_an_id_is_a_key(store: Store) -> None:
    text = str(UUID(int=7))

    assert f"Unknown prerequisite of 'a': '{text}'" in refusal_of(store, after("a", text))
