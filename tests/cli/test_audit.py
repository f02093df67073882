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
        "when                       by     subject     action  what",
        "15:00:00 +01:00 · now      ann    queue/bulk  paused  paused: import",
        "13:00:00 +01:00 · 2 h ago  box-1  pool/mail   grew    from 2 to 4",
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
