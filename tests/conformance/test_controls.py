from __future__ import annotations

import pytest

from tests.support.builders import SECOND, at_once
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.errors import InvalidTask
from windlass.stores.coordination import MAX_CONTROL, Control, Entry
from windlass.stores.protocol import Store

GREW = Entry(subject="pool/mail", action="grew", text="▲ 2→4", by="node-1", data='{"needs":3.7}')


def values(store: Store, kind: str = "pool") -> dict[str, str]:
    return {control.name: control.value for control in store.controls(kind)}


def version(store: Store, name: str, kind: str = "pool") -> int:
    [found] = [control.version for control in store.controls(kind) if control.name == name]
    return found


def test_a_control_is_written_and_read(store: Store, clock: ManualClock) -> None:
    assert store.put_control("pool", "mail", '{"target":4}', expect=0)

    assert store.controls("pool") == [
        Control(kind="pool", name="mail", version=1, value='{"target":4}', changed=clock.now())
    ]
    assert store.controls("breaker") == []


def test_each_change_is_one_version_later(store: Store, clock: ManualClock) -> None:
    store.put_control("pool", "mail", "1", expect=0)
    clock.advance(SECOND)

    assert store.put_control("pool", "mail", "2", expect=1)

    [control] = store.controls("pool")
    assert (control.version, control.value, control.changed) == (2, "2", clock.now())


@pytest.mark.parametrize("expect", [0, 1, 3, 99])
def test_a_write_that_expects_another_version_changes_nothing(store: Store, expect: int) -> None:
    store.put_control("pool", "mail", "1", expect=0)
    store.put_control("pool", "mail", "2", expect=1)
    before = store.controls("pool")

    assert not store.put_control("pool", "mail", "3", expect=expect, entries=[GREW])
    assert not store.put_control("pool", "mail", None, expect=expect, entries=[GREW])

    assert store.controls("pool") == before
    assert store.audit() == []


def test_what_does_not_exist_has_no_version_but_0(store: Store) -> None:
    assert not store.put_control("pool", "mail", "1", expect=1)

    assert store.controls("pool") == []
    assert store.put_control("pool", "mail", "1", expect=0)


def test_controls_are_listed_by_name_and_kept_apart_by_kind(store: Store) -> None:
    for kind, name in [("pool", "mail"), ("pool", "bulk"), ("order", "mail"), ("pool", "Ärger / é")]:
        store.put_control(kind, name, f"{kind} {name}", expect=0)

    assert [control.name for control in store.controls("pool")] == ["bulk", "mail", "Ärger / é"]
    assert values(store, "order") == {"mail": "order mail"}


def test_a_removed_control_is_gone(store: Store) -> None:
    store.put_control("pool", "mail", "1", expect=0)
    store.put_control("pool", "bulk", "1", expect=0)

    assert store.put_control("pool", "mail", None, expect=1)

    assert values(store) == {"bulk": "1"}


def test_who_knew_a_control_before_it_was_removed_cannot_overwrite_the_new_one(store: Store) -> None:
    store.put_control("pool", "mail", "old", expect=0)
    store.put_control("pool", "mail", None, expect=1)

    assert not store.put_control("pool", "mail", "late", expect=1)
    assert not store.put_control("pool", "mail", "late", expect=2)
    assert store.put_control("pool", "mail", "new", expect=0)
    assert not store.put_control("pool", "mail", "late", expect=1)

    assert values(store) == {"mail": "new"}
    assert store.put_control("pool", "mail", "newer", expect=version(store, "mail"))


def test_what_is_not_there_may_be_removed(store: Store) -> None:
    assert store.put_control("pool", "mail", None, expect=0)
    assert store.put_control("pool", "mail", None, expect=0)

    assert store.controls("pool") == []
    assert store.put_control("pool", "mail", "1", expect=0)


def test_the_entries_about_a_change_are_written_with_it(store: Store, clock: ManualClock) -> None:
    assert store.put_control("pool", "mail", "4", expect=0, entries=[GREW])

    [entry] = store.audit()
    assert (entry.subject, entry.action, entry.text, entry.by, entry.data, entry.at) == (
        *(GREW.subject, GREW.action, GREW.text, GREW.by, GREW.data),
        clock.now(),
    )


def test_of_those_who_expect_the_same_version_one_succeeds(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]

    for expect in range(6):
        answers = at_once(
            4, lambda n, e=expect: stores[n].put_control("pool", "mail", f"{e} {n}", expect=e, entries=[GREW])
        )

        assert sorted(answers) == [False, False, False, True]
        assert values(stores[0]) == {"mail": f"{expect} {answers.index(True)}"}
    assert len(stores[0].audit()) == 6


def test_those_who_write_the_very_same_value_do_not_both_succeed(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]

    answers = at_once(4, lambda n: stores[n].put_control("pool", "mail", "same", expect=0))

    assert sorted(answers) == [False, False, False, True]


def test_any_text_is_taken_as_a_value(store: Store) -> None:
    store.put_control("pool", "mail", "\0 \ud800 é", expect=0)
    store.put_control("pool", "empty", "", expect=0)

    assert values(store) == {"mail": "\ufffd ? é", "empty": ""}


@pytest.mark.parametrize(
    ("kind", "name", "value", "expect", "named"),
    [
        ("", "mail", "1", 0, "kind="),
        ("po ol", "mail", "1", 0, "kind="),
        ("pool", "", "1", 0, "name="),
        ("pool", "a\nb", "1", 0, "name="),
        ("pool", "x" * 257, "1", 0, "name="),
        ("pool", "mail", "1", -1, "expect=-1"),
        ("pool", "mail", "x" * (MAX_CONTROL + 1), 0, "value has"),
    ],
)
def test_what_can_be_no_control_is_refused(
    store: Store, kind: str, name: str, value: str, expect: int, named: str
) -> None:
    with pytest.raises(InvalidTask, match=named):
        store.put_control(kind, name, value, expect=expect)

    assert store.controls("pool") == []


def test_an_entry_that_is_refused_leaves_the_control_as_it_was(store: Store) -> None:
    with pytest.raises(InvalidTask, match="subject="):
        store.put_control("pool", "mail", "1", expect=0, entries=[GREW, Entry(subject="", action="grew", text="")])

    assert store.controls("pool") == []
    assert store.audit() == []
