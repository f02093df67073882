from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import DAY, SECOND, sweep_until_quiet
from windlass.clock import ManualClock
from windlass.errors import InvalidTask
from windlass.stores.coordination import AUDIT_KEPT, MAX_DATA, MAX_ENTRIES, MAX_SUBJECT, MAX_TEXT, Entry, EntrySeen
from windlass.stores.protocol import Store


def about(subject: str, text: str = "text", **more: str) -> Entry:
    return Entry(subject=subject, action="held", text=text, **more)


def texts(entries: list[EntrySeen]) -> list[str]:
    return [entry.text for entry in entries]


def test_an_entry_is_kept_with_its_moment(store: Store, clock: ManualClock) -> None:
    store.note([Entry(subject="queue/bulk", action="paused", text="bulk paused", by="ada", data='{"n":1}')])

    [entry] = store.audit()
    assert entry == EntrySeen(
        subject="queue/bulk",
        action="paused",
        text="bulk paused",
        by="ada",
        data='{"n":1}',
        number=entry.number,
        at=clock.now(),
    )


def test_the_newest_comes_first_and_those_of_one_call_in_their_order(store: Store, clock: ManualClock) -> None:
    store.note([about("pool/a", "1"), about("pool/b", "2")])
    clock.advance(-SECOND)  # the order is that of the writing, whatever the clock says
    store.note([about("pool/a", "3")])

    seen = store.audit()

    assert texts(seen) == ["3", "2", "1"]
    assert [entry.number for entry in seen] == sorted((entry.number for entry in seen), reverse=True)


def test_nothing_is_noted_when_nothing_is_given(store: Store) -> None:
    store.note([])

    assert store.audit() == []


SUBJECTS = ["pool/mail", "pool/mail2", "pool/mail/x", "pool", "pools/mail", "queue/mail", "pool0", "pool/é"]


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        (None, SUBJECTS),
        ("pool/mail", ["pool/mail"]),
        ("pool", ["pool"]),
        ("pool/", ["pool/mail", "pool/mail2", "pool/mail/x", "pool/é"]),
        ("pool/mail/", ["pool/mail/x"]),
        ("queue/", ["queue/mail"]),
        ("nothing", []),
        ("nothing/", []),
        ("", []),
    ],
)
def test_a_subject_is_meant_exactly_or_as_a_beginning(store: Store, subject: str | None, found: list[str]) -> None:
    store.note([about(one) for one in SUBJECTS])

    assert [entry.subject for entry in store.audit(subject)] == found[::-1]


@pytest.mark.parametrize("subject", [None, "pool/a", "pool/"])
def test_the_log_is_read_page_by_page(store: Store, subject: str | None) -> None:
    store.note([about("pool/a", str(number)) for number in range(7)])
    store.note([about("queue/a", "not this")] if subject else [])

    pages: list[list[str]] = []
    before: int | None = None
    while page := store.audit(subject, limit=3, before=before):
        pages.append(texts(page))
        before = page[-1].number

    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


def test_a_page_of_nothing_is_refused(store: Store) -> None:
    with pytest.raises(InvalidTask, match="limit=0"):
        store.audit(limit=0)


def test_any_text_is_taken(store: Store) -> None:
    store.note([Entry(subject="pool/a", action="held", text="\0 \ud800", by="\0", data="\ud800")])

    [entry] = store.audit()
    assert (entry.text, entry.by, entry.data) == ("\ufffd ?", "\ufffd", "?")


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (Entry(subject="", action="held", text=""), "subject="),
        (Entry(subject="a\nb", action="held", text=""), "subject="),
        (Entry(subject="x" * (MAX_SUBJECT + 1), action="held", text=""), "subject="),
        (Entry(subject="pool/a", action="", text=""), "action="),
        (Entry(subject="pool/a", action="x" * 65, text=""), "action="),
        (Entry(subject="pool/a", action="held", text="x" * (MAX_TEXT + 1)), "text has"),
        (Entry(subject="pool/a", action="held", text="", by="x" * (MAX_TEXT + 1)), "by has"),
        (Entry(subject="pool/a", action="held", text="", data="x" * (MAX_DATA + 1)), "data has"),
    ],
)
def test_what_can_be_no_entry_is_refused_with_all_of_its_call(store: Store, entry: Entry, named: str) -> None:
    with pytest.raises(InvalidTask, match=named):
        store.note([about("pool/a"), entry])

    assert store.audit() == []


def test_too_many_entries_in_one_call_are_refused(store: Store) -> None:
    with pytest.raises(InvalidTask, match="1,001 given"):
        store.note([about("pool/a")] * (MAX_ENTRIES + 1))


def test_the_sweep_forgets_what_is_old(store: Store, clock: ManualClock) -> None:
    store.note([about("pool/a", "old"), about("pool/b", "old")])
    clock.advance(DAY)
    store.note([about("pool/a", "kept")])
    last = store.audit()[0].number
    clock.advance(AUDIT_KEPT - DAY + timedelta(microseconds=1))

    sweep_until_quiet(store)

    assert texts(store.audit()) == ["kept"]
    clock.advance(DAY)
    sweep_until_quiet(store)
    assert store.audit() == []
    store.note([about("pool/a", "new")])
    assert store.audit()[0].number > last


def test_the_sweep_forgets_nothing_before_its_time(store: Store, clock: ManualClock) -> None:
    store.note([about("pool/a", "kept")])
    clock.advance(AUDIT_KEPT)

    sweep_until_quiet(store)

    assert texts(store.audit()) == ["kept"]
