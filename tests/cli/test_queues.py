"""`windlass queues`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import HOUR, MINUTE, claim_one, complete, submit_one
from windlass.clock import ManualClock
from windlass.core.ordering import Strategy
from windlass.stores.protocol import Store


def test_queues_are_listed_with_counts_and_the_oldest_wait(
    windlass: Windlass, store: Store, clock: ManualClock
) -> None:
    submit_one(store, queue="mail")
    clock.advance(3 * MINUTE)
    submit_one(store, queue="mail")
    submit_one(store, queue="bulk", delay=timedelta(hours=1))
    windlass("queues", "pause", "bulk", "--why", "nightly import", "--by", "ops")

    result = windlass("queues", "ls")

    assert result.stdout.splitlines() == [
        "queue  runnable  leased  waiting  scheduled  retrying  failed  oldest wait  p95 wait  settings",
        "bulk          0       0        0          1         0       0  –            –         "
        'PAUSED by ops "nightly import", priority',
        "mail          2       0        0          0         0       0  3 min        –         priority",
    ]


def test_the_95th_percentile_of_recent_waits_is_listed(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    submit_one(store, queue="mail")
    clock.advance(2 * MINUTE)
    complete(store, claim_one(store, queue="mail"))

    [queue] = read(windlass("queues", "ls", "--json"))

    assert windlass("queues", "ls").stdout.splitlines()[1].split() == [
        *("mail", *"000000", "–", "2", "min", "priority")
    ]
    assert queue["waits"] == {"tasks": 1, "median_seconds": 120.0, "p95_seconds": 120.0}


def test_queues_are_listed_as_json(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="mail")

    [document] = read(windlass("queues", "ls", "--json"))
    [line] = lines(windlass("queues", "ls", "--jsonl"))

    assert document == line
    assert (line["name"], line["tasks"], line["oldest"]) == ("mail", {"runnable": 1}, "2027-01-15T12:00:00Z")


def test_a_paused_queue_is_not_claimed_until_it_is_resumed(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="mail")
    paused = windlass("queues", "pause", "mail", "--why", "import", "--by", "ann")
    claimed = store.claim(store.open_session("n"), ["mail"], 1)

    resumed = windlass("queues", "resume", "mail", "--by", "ann")
    again = windlass("queues", "resume", "mail")

    assert (paused.exit_code, paused.stdout, claimed) == (0, "", [])
    assert "Queue mail is open." in resumed.stderr
    assert "Queue mail is open." in again.stderr
    assert len(store.claim(store.open_session("n"), ["mail"], 1)) == 1
    assert [(entry.action, entry.by) for entry in store.audit("queue/mail")] == [("resumed", "ann"), ("paused", "ann")]


def test_a_pause_can_have_an_end(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    submit_one(store, queue="mail")

    paused = windlass("queues", "pause", "mail", "--for", "1h", "--by", "ann")
    listed = windlass("queues", "ls").stdout
    clock.advance(HOUR)

    assert "Queue mail is paused for 1h." in paused.stderr
    assert "PAUSED by ann until " in listed
    assert "PAUSED" not in windlass("queues", "ls").stdout
    assert len(store.claim(store.open_session("n"), ["mail"], 1)) == 1
    assert store.audit("queue/mail")[0].text == "paused queue mail for 1h"


@pytest.mark.parametrize("length", ["soon", "-1h", "4000d"])
def test_an_invalid_length_of_a_pause_is_refused(windlass: Windlass, store: Store, length: str) -> None:
    result = windlass("queues", "pause", "mail", f"--for={length}")

    assert (result.exit_code, "for=" in result.stderr) == (2, True), result.output
    assert store.queues() == []


def test_a_queue_is_made_fair(windlass: Windlass, store: Store) -> None:
    windlass("queues", "set", "mail", "--fair")
    assert store.queues()[0].fair
    assert "fair" in windlass("queues", "ls").stdout

    windlass("queues", "set", "mail", "--no-fair")
    assert not store.queues()[0].fair


def test_settings_are_changed_independently(windlass: Windlass, store: Store) -> None:
    windlass("queues", "set", "mail", "--strategy", "aging", "--step", "30s", "--max-waiting", "5")
    result = windlass("queues", "set", "mail", "--weight", "3", "--horizon", "2h")

    [queue] = store.queues()

    assert (queue.strategy, queue.step, queue.max_waiting) == (Strategy.AGING, timedelta(seconds=30), 5)
    assert (queue.weight, queue.horizon) == (3, timedelta(hours=2))
    assert result.stderr.startswith("Queue mail: weight=3, horizon=2h\n")
    assert "aging, horizon 2h, step 30s, 0 of at most 5 waiting, weight 3" in windlass("queues", "ls").stdout

    windlass("queues", "set", "mail", "--max-waiting", "none")

    assert store.queues()[0].max_waiting is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "Nothing to set"),
        (["--max-waiting", "many"], "max_waiting='many'"),
        (["--weight", "0"], "weight=0"),
        (["--horizon", "soon"], "horizon='soon'"),
        (["--strategy", "chance"], "--strategy"),
    ],
)
def test_invalid_settings_are_refused(windlass: Windlass, words: list[str], named: str) -> None:
    result = windlass("queues", "set", "mail", *words)

    assert (result.exit_code, named in result.stderr) == (2, True), result.output


def test_without_queues_a_note_goes_to_standard_error(windlass: Windlass) -> None:
    result = windlass("queues", "ls")

    assert "No queue yet" in result.stderr
    assert result.stdout == ""
    assert read(windlass("queues", "ls", "--json")) == []
