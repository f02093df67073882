"""`windlass audit`."""

from __future__ import annotations

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import HOUR
from windlass.clock import ManualClock
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store


def test_the_log_is_shown_newest_first_with_times_both_ways(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    store.note([Entry(subject="pool/mail", action="grew", text="from 2 to 4", by="box-1")])
    clock.advance(2 * HOUR)
    store.note([Entry(subject="queue/bulk", action="paused", text="paused: import", by="ann")])

    assert windlass("audit", "ls").stdout.splitlines() == [
        "when                       by     subject     action  what",
        "15:00:00 +01:00 · now      ann    queue/bulk  paused  paused: import",
        "13:00:00 +01:00 · 2 h ago  box-1  pool/mail   grew    from 2 to 4",
    ]


def test_the_log_is_cut_by_subject_person_time_and_number(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    store.note([Entry(subject="pool/mail", action="grew", text="a", by="box-1")])
    clock.advance(2 * HOUR)
    store.note([Entry(subject="pool/bulk", action="grew", text="b", by="box-1")])
    store.note([Entry(subject="queue/bulk", action="paused", text="c", by="ann")])

    def texts(*words: str) -> list[str]:
        return [entry["text"] for entry in read(windlass("audit", "ls", *words, "--json"))]

    assert texts("pool/") == ["b", "a"]
    assert texts("pool/mail") == ["a"]
    assert texts("--by", "ann") == ["c"]
    assert texts("--since", "1h") == ["c", "b"]
    assert texts("--limit", "1") == ["c"]
    assert len(lines(windlass("audit", "ls", "--jsonl"))) == 3
