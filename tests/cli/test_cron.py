"""`windlass cron`."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.cli.conftest import NOON, Windlass, lines, read
from windlass.cli.clock_changes import changes
from windlass.stores.protocol import Filter, Store

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2027, 1, 1, tzinfo=UTC)


def test_schedules_are_listed_with_their_next_run(windlass: Windlass, store: Store) -> None:
    store.fire("nightly", NOON, [])

    assert windlass("cron", "ls").stdout.splitlines() == [
        "cron     handler  schedule    in words            zone           next                                  last",
        "nightly  mail     30 2 * * *  At 02:30 every day  Europe/Berlin  2027-01-16 02:30:00 +01:00 · in 14 h"
        "  13:00:00 +01:00 · now",
    ]
    [document] = read(windlass("cron", "ls", "--json"))
    assert (document["next"], document["args"]) == ("2027-01-16T02:30:00+01:00", {"to": "ops"})


def test_the_next_runs_are_told_by_name_and_by_expression(windlass: Windlass) -> None:
    by_name = windlass("cron", "next", "nightly", "-n", "2").stdout.splitlines()
    by_expression = windlass("cron", "next", "0 0 1 * *", "-n", "1", "--tz", "Asia/Tokyo").stdout
    [programs] = lines(windlass("cron", "next", "0 0 1 * *", "-n", "1", "--jsonl"))

    assert by_name == [
        "Sat 2027-01-16 02:30:00 +01:00 · in 14 h",
        "Sun 2027-01-17 02:30:00 +01:00 · in 1.6 d",
    ]
    assert by_expression.startswith("Mon 2027-02-01 00:00:00 +09:00 · in ")
    assert programs["local"] == "2027-02-01T00:00:00+00:00"


def test_a_cron_is_run_by_hand_beside_its_schedule(windlass: Windlass, store: Store) -> None:
    said = windlass("cron", "run", "nightly", "--by", "ann")

    [task] = store.find(Filter()).tasks
    assert said.stdout == f"{task.id}\n"
    assert (task.handler, task.args, task.queue) == ("mail", '{"to":"ops"}', "mail")
    assert store.crons()[0].fired is None
    assert [(entry.action, entry.by) for entry in store.audit("cron/nightly")] == [("ran", "ann")]


def test_a_paused_cron_shows_by_whom_and_why(windlass: Windlass, store: Store) -> None:
    windlass("cron", "pause", "nightly", "--why", "import", "--by", "ops")
    shown = windlass("cron", "ls").stdout
    [document] = read(windlass("cron", "ls", "--json"))

    resumed = windlass("cron", "resume", "nightly")

    assert 'PAUSED by ops "import"' in shown
    assert (document["paused"], document["next"]) == (True, None)
    assert resumed.stderr == "nightly fires again; missed times: last\n"
    assert [entry.action for entry in store.audit("cron/nightly")] == ["resumed", "paused"]


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["run", "none"], 4, "'none'"),
        (["pause", "none"], 4, "'none'"),
        (["next", "none"], 4, "'none'"),
        (["next", "61 * * * *"], 2, "schedule='61 * * * *'"),
        (["lint", "0 0 * * *", "--tz", "Mars"], 2, "tz='Mars'"),
        (["lint", "0 0 31 2 *"], 2, "schedule="),
    ],
)
def test_bad_input_is_refused(windlass: Windlass, words: list[str], status: int, named: str) -> None:
    said = windlass("cron", *words)

    assert (said.exit_code, named in said.stderr) == (status, True), said.output


def test_lint_names_the_days_on_which_a_run_is_missing_or_comes_twice(windlass: Windlass) -> None:
    said = windlass("cron", "lint", "30 2 * * *", "--tz", "Europe/Berlin", "--years", "1")

    assert said.stdout.splitlines() == [
        '"At 02:30 every day" in Europe/Berlin',
        "⚠ Sun 28 Mar 2027, clocks 02:00 → 03:00: 02:30 does not exist: it runs at 03:00 +02:00",
        "⚠ Sun 31 Oct 2027, clocks 03:00 → 02:00: 02:30 comes twice: it runs once, at 02:30 +02:00",
    ]
    assert windlass("cron", "lint", "nightly", "--years", "1").stdout == said.stdout


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [("30 2 * * *", "UTC"), ("0 12 * * *", "Europe/Berlin"), ("30 2 * * 1", "Europe/Berlin")],
)
def test_lint_has_nothing_to_say_of_times_that_always_come_once(windlass: Windlass, schedule: str, zone: str) -> None:
    said = windlass("cron", "lint", schedule, "--tz", zone)

    assert "✓ no run of it is missing" in said.stdout
    assert read(windlass("cron", "lint", schedule, "--tz", zone, "--json")) == []


def test_runs_by_the_hour_go_on_through_both_changes() -> None:
    spring, autumn = changes("*/30 * * * *", BERLIN, START, 1)

    assert spring.text == "02:00, 02:30 do not exist: it runs at 03:00 +02:00, 03:30 +02:00"
    assert autumn.text == (
        "02:00, 02:30 come twice: it runs both times, at 02:00 +02:00, 02:30 +02:00, 02:00 +01:00, 02:30 +01:00"
    )


def test_a_change_of_half_an_hour_is_found_to_the_minute() -> None:
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    [autumn] = changes("45 1 * * *", lord_howe, START, 1)
    [spring] = changes("15 2 * * *", lord_howe, START, 1)

    assert (autumn.kind, autumn.changed, autumn.day.isoformat()) == ("twice", "02:00 → 01:30", "2027-04-04")
    assert (spring.kind, spring.changed, spring.day.isoformat()) == ("missing", "02:00 → 02:30", "2027-10-03")
