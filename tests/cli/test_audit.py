"""`windlass audit`."""

from __future__ import annotations

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import HOUR
from windlass.clock import ManualClock
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store


def test_entries_are_listed_newest_first(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    store.note([Entry(subject="pool/mail", action="grew", text="from 2 to 4", by="box-1")])
    clock.advance(2 * HOUR)
    store.note([Entry(subject="queue/bulk", action="paused", text="paused: import", by="ann")])

    assert windlass("audit", "ls").stdout.splitlines() == [
        "entry  when                       by     subject     action  what",
        "    2  15:00:00 +01:00 · now      ann    queue/bulk  paused  paused: import",
        "    1  13:00:00 +01:00 · 2 h ago  box-1  pool/mail   grew    from 2 to 4",
    ]


def test_entries_are_filtered_by_subject_author_time_and_limit(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    store.note([Entry(subject="pool/mail", action="grew", text="a", by="box-1")])
    clock.advance(2 * HOUR)
    store.note([Entry(subject="pool/bulk", action="grew", text="b", by="box-1")])
    store.note([Entry(subject="queue/bulk", action="paused", text="c", by="ann")])

    def texts(*words: str) -> list[str]:
        return [entry["text"] for entry in read(windlass("audit", "ls", *words, "--json"))["entries"]]

    assert texts("pool/") == ["b", "a"]
    assert texts("pool/mail") == ["a"]
    assert texts("--author", "ann") == ["c"]
    assert texts("--since", "1h") == ["c", "b"]
    assert texts("--limit", "1") == ["c"]
    assert len(lines(windlass("audit", "ls", "--jsonl"))) == 3


def test_a_change_says_how_to_undo_it(windlass: Windlass, store: Store) -> None:
    paused = windlass("queues", "pause", "mail", "--why", "import")
    assert paused.stderr.splitlines()[-1] == "Undo: windlass audit undo 1"

    undone = windlass("audit", "undo", "1", "--by", "bob", "--why", "too early")

    assert (undone.exit_code, undone.stdout) == (0, "")
    assert undone.stderr == "Undid #1: paused queue mail: import\nUndo: windlass audit undo 2\n"
    assert not store.queues()[0].paused
    [entry] = store.audit(limit=1)
    assert (entry.action, entry.by, entry.text) == (
        "undone",
        "bob",
        "undid #1 (paused queue mail: import): too early",
    )


def test_what_changes_nothing_or_cannot_be_undone_offers_no_undo(windlass: Windlass) -> None:
    windlass("queues", "pause", "mail", "--by", "ann")

    assert "Undo" not in windlass("queues", "pause", "mail", "--by", "ann").stderr
    assert "Undo" not in windlass("cron", "run", "nightly").stderr
    assert "Undo" not in windlass("queues", "ls").stderr


def test_an_entry_that_cannot_be_undone_says_why(windlass: Windlass) -> None:
    windlass("queues", "pause", "mail")
    windlass("queues", "resume", "mail", "--by", "bob")
    windlass("cron", "run", "nightly")

    changed, ran, unknown = (
        windlass("audit", "undo", "1"),
        windlass("audit", "undo", "3"),
        windlass("audit", "undo", "9"),
    )

    assert (changed.exit_code, "bob has changed queue/mail since (#2" in changed.stderr) == (5, True)
    assert (ran.exit_code, "The task is submitted. Cancel it instead." in ran.stderr) == (5, True)
    assert (unknown.exit_code, "Unknown audit entry: 9" in unknown.stderr) == (4, True)


def test_several_entries_are_undone_at_once(windlass: Windlass, store: Store) -> None:
    windlass("queues", "pause", "mail")
    windlass("queues", "set", "mail", "--weight", "3")

    done = read(windlass("audit", "undo", "2", "1", "--json"))

    assert [entry["number"] for entry in done] == [2, 1]
    assert (store.queues()[0].paused, store.queues()[0].weight) == (False, 1)
