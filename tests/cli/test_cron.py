"""`windlass cron`."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.cli.conftest import NOON, Windlass, lines, read
from windlass.operations.clock_changes import find_clock_changes
from windlass.stores.protocol import Filter, Store

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2027, 1, 1, tzinfo=UTC)


def test_crons_are_listed_with_their_next_run(windlass: Windlass, store: Store) -> None:
    store.fire("nightly", NOON, [])

    assert windlass("cron", "ls").stdout.splitlines() == [
        "cron     handler  schedule    in words            zone           next                                  last",
        "nightly  mail     30 2 * * *  At 02:30 every day  Europe/Berlin  2027-01-16 02:30:00 +01:00 · in 14 h"
        "  13:00:00 +01:00 · now",
    ]
    [document] = read(windlass("cron", "ls", "--json"))
    assert (document["next"], document["args"]) == ("2027-01-16T02:30:00+01:00", {"to": "ops"})


def test_next_runs_are_shown_for_a_name_and_an_expression(windlass: Windlass) -> None:
    by_name = windlass("cron", "next", "nightly", "--limit", "2").stdout.splitlines()
    by_expression = windlass("cron", "next", "0 0 1 * *", "--limit", "1", "--tz", "Asia/Tokyo").stdout
    document = read(windlass("cron", "next", "0 0 1 * *", "--limit", "1", "--json"))
    [line] = lines(windlass("cron", "next", "0 0 1 * *", "--limit", "1", "--jsonl"))

    assert by_name == [
        "Sat 2027-01-16 02:30:00 +01:00 · in 14 h",
        "Sun 2027-01-17 02:30:00 +01:00 · in 1.6 d",
    ]
    assert by_expression.startswith("Mon 2027-02-01 00:00:00 +09:00 · in ")
    assert document == {"cron": "0 0 1 * *", "paused": False, "times": ["2027-02-01T00:00:00Z"]}
    assert line == "2027-02-01T00:00:00Z"


def test_a_manual_run_leaves_the_schedule_unchanged(windlass: Windlass, store: Store) -> None:
    result = windlass("cron", "run", "nightly", "--by", "ann")

    [task] = store.find(Filter()).tasks
    assert result.stdout == f"{task.id}\n"
    assert (task.handler, task.args, task.queue) == ("mail", '{"to":"ops"}', "mail")
    assert store.crons()[0].fired is None
    assert [(entry.action, entry.by) for entry in store.audit("cron/nightly")] == [("ran", "ann")]


def test_a_paused_cron_shows_who_paused_it_and_why(windlass: Windlass, store: Store) -> None:
    windlass("cron", "pause", "nightly", "--why", "import", "--by", "ops")
    shown = windlass("cron", "ls").stdout
    [document] = read(windlass("cron", "ls", "--json"))

    resumed = windlass("cron", "resume", "nightly")

    assert 'PAUSED by ops "import"' in shown
    assert (document["paused"], document["next"]) == (True, None)
    assert resumed.stderr.startswith("Cron nightly is resumed. Misfire policy for missed runs: last.\n")
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
    result = windlass("cron", *words)

    assert (result.exit_code, named in result.stderr) == (status, True), result.output


def test_lint_lists_runs_that_do_not_exist_or_occur_twice(windlass: Windlass) -> None:
    result = windlass("cron", "lint", "30 2 * * *", "--tz", "Europe/Berlin", "--years", "1")

    assert result.stdout.splitlines() == [
        '"At 02:30 every day" in Europe/Berlin',
        "⚠ Sun 28 Mar 2027, clocks 02:00 → 03:00: 02:30 does not exist: it runs at 03:00 +02:00",
        "⚠ Sun 31 Oct 2027, clocks 03:00 → 02:00: 02:30 occurs twice: it runs once, at 02:30 +02:00",
    ]
    assert windlass("cron", "lint", "nightly", "--years", "1").stdout == result.stdout


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [("30 2 * * *", "UTC"), ("0 12 * * *", "Europe/Berlin"), ("30 2 * * 1", "Europe/Berlin")],
)
def test_lint_finds_nothing_if_every_run_occurs_once(windlass: Windlass, schedule: str, zone: str) -> None:
    result = windlass("cron", "lint", schedule, "--tz", zone)

    assert "✓ No run is skipped or repeated" in result.stdout
    assert read(windlass("cron", "lint", schedule, "--tz", zone, "--json")) == []


def test_hourly_runs_continue_through_both_changes() -> None:
    spring, autumn = find_clock_changes("*/30 * * * *", BERLIN, START, 1)

    assert spring.text == "02:00, 02:30 do not exist: it runs at 03:00 +02:00, 03:30 +02:00"
    assert autumn.text == (
        "02:00, 02:30 occur twice: it runs both times, at 02:00 +02:00, 02:30 +02:00, 02:00 +01:00, 02:30 +01:00"
    )


def test_a_change_of_half_an_hour_is_found() -> None:
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    [autumn] = find_clock_changes("45 1 * * *", lord_howe, START, 1)
    [spring] = find_clock_changes("15 2 * * *", lord_howe, START, 1)

    assert (autumn.kind, autumn.changed, autumn.day.isoformat()) == ("twice", "02:00 → 01:30", "2027-04-04")
    assert (spring.kind, spring.changed, spring.day.isoformat()) == ("missing", "02:00 → 02:30", "2027-10-03")


def test_a_cron_is_created_changed_shown_and_removed(windlass: Windlass, store: Store) -> None:
    created = windlass(
        "cron", "create", "soon", "every 2h", "mail", "to=ann", "--queue", "q", "--start", "5m", "--by", "ann"
    )
    changed = windlass("cron", "set", "soon", "to=bob", "copies:=2", "--schedule", "@daily", "--unset", "queue")
    shown = windlass("cron", "show", "soon").stdout.splitlines()
    [_, listed] = windlass("cron", "ls").stdout.splitlines()[1:]

    assert created.stderr.startswith("Cron soon is created. Next run: 2027-01-15 12:05:00+00:00.\n")
    assert changed.stderr.startswith("Cron soon is changed. Next run: 2027-01-16 00:00:00+00:00.\n")
    assert shown[0] == "cron       soon (created at run time)"
    assert 'arguments  {"to":"bob","copies":2}' in shown
    assert listed.split()[:3] == ["soon", "mail", "@daily"]
    assert windlass("cron", "rm", "soon").exit_code == 0
    assert [cron.info.name for cron in store.crons()] == ["nightly"]
    assert [entry.by for entry in store.audit("cron/soon")][-1] == "ann"


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["create", "nightly", "@daily", "mail", "to=ann"], 5, "exists"),
        (["create", "x", "@daily", "mail"], 2, "Missing: to"),
        (["create", "x", "every blue moon", "mail", "to=a"], 2, "schedule="),
        (["set", "nightly", "--schedule", "@daily"], 5, "in the code"),
        (["set", "none", "--schedule", "@daily"], 4, "'none'"),
        (["set", "nightly"], 2, "nothing to change"),
        (["show", "none"], 4, "'none'"),
    ],
)
def test_a_change_that_is_not_possible_is_refused(
    windlass: Windlass, words: list[str], status: int, named: str
) -> None:
    result = windlass("cron", *words)

    assert (result.exit_code, named in result.stderr) == (status, True), result.output


def test_intervals_and_aliases_have_next_runs_and_no_clock_changes(windlass: Windlass) -> None:
    assert windlass("cron", "next", "@daily", "--limit", "1").stdout.startswith("Sat 2027-01-16 00:00:00")
    assert windlass("cron", "next", "every 90s", "--limit", "1").stdout.startswith("Fri 12:01:30")
    assert "No run is skipped" in windlass("cron", "lint", "every 1d", "--tz", "Europe/Berlin").stdout
