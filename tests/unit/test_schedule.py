"""When crons fire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from windlass.core.manifest import CronInfo
from windlass.core.schedule import explain, find_missed, find_times, next_time, parse
from windlass.core.times import micros, to_datetime, to_instant
from windlass.errors import InvalidTask

NOON = to_instant(datetime(2026, 11, 16, 12, 0, tzinfo=UTC))
SECOND = 1_000_000


def a_cron(schedule: str, **fields: object) -> CronInfo:
    return CronInfo(**{"name": "tick", "handler": "work", "schedule": schedule, **fields})  # type: ignore[arg-type]


def first(cron: CronInfo, after: int, number: int = 3) -> list[str]:
    return [f"{to_datetime(each):%m-%d %H:%M:%S}" for each in islice(find_times(cron, after), number)]


@pytest.mark.parametrize(
    ("schedule", "found", "words"),
    [
        ("@hourly", ["11-16 13:00:00", "11-16 14:00:00"], "At the start of every hour"),
        ("@daily", ["11-17 00:00:00", "11-18 00:00:00"], "At 00:00 every day"),
        ("@Weekly", ["11-22 00:00:00", "11-29 00:00:00"], "At 00:00 on Sunday"),
        ("@monthly", ["12-01 00:00:00", "01-01 00:00:00"], "At 00:00 on the first day of every month"),
        ("@yearly", ["01-01 00:00:00", "01-01 00:00:00"], "At 00:00 on January 1"),
        ("every 90s", ["11-16 12:01:30", "11-16 12:03:00"], "Every 1m30s"),
        ("Every 2h", ["11-16 14:00:00", "11-16 16:00:00"], "Every 2h"),
    ],
)
def test_aliases_and_intervals_have_times_and_words(schedule: str, found: list[str], words: str) -> None:
    assert first(a_cron(schedule), NOON, 2) == found
    assert explain(schedule) == words


def test_an_interval_counts_from_its_start_and_does_not_drift() -> None:
    cron = a_cron("every 7s", start=NOON + 3 * SECOND)

    assert first(cron, NOON - SECOND) == ["11-16 12:00:03", "11-16 12:00:10", "11-16 12:00:17"]
    assert next_time(cron, NOON + 10 * SECOND) == NOON + 17 * SECOND
    assert next_time(cron, NOON + 9 * SECOND + 999_999) == NOON + 10 * SECOND


def test_an_interval_is_elapsed_time_in_every_zone() -> None:
    before = to_instant(datetime(2026, 3, 28, 23, tzinfo=UTC))  # The night in which the clocks of Berlin go forward.
    cron = a_cron("every 1h", timezone="Europe/Berlin", start=before)

    assert first(cron, before) == ["03-29 00:00:00", "03-29 01:00:00", "03-29 02:00:00"]


def test_an_alias_is_read_in_the_time_zone_of_its_cron() -> None:
    before = to_instant(datetime(2026, 10, 24, 12, tzinfo=UTC))  # The clocks go back on the 25th.

    assert first(a_cron("@daily", timezone="Europe/Berlin"), before) == [
        "10-24 22:00:00",
        "10-25 23:00:00",
        "10-26 23:00:00",
    ]


def test_start_and_end_are_the_first_and_the_last_possible_times() -> None:
    hour = micros(timedelta(hours=1))
    cron = a_cron("@hourly", start=NOON + hour, end=NOON + 2 * hour)

    assert first(cron, 0) == ["11-16 13:00:00", "11-16 14:00:00"]
    assert next_time(cron, NOON + 2 * hour) is None


def test_only_the_last_missed_times_are_counted_however_many_there_are() -> None:
    year = micros(timedelta(days=365))

    assert find_missed(a_cron("every 1s"), NOON - year, NOON, 2) == [NOON - SECOND, NOON]
    assert find_missed(a_cron("@hourly"), NOON - year, NOON, 1) == [NOON]
    assert find_missed(a_cron("every 1h", end=NOON - year), NOON - year, NOON, 5) == []


@pytest.mark.parametrize("schedule", ["every", "every 0s", "every -1s", "every 1.5s", "every 500y", "@never"])
def test_what_is_not_a_schedule_is_refused_with_the_value(schedule: str) -> None:
    with pytest.raises(InvalidTask, match="schedule="):
        parse(schedule)
