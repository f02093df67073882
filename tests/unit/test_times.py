from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.times import EARLIEST, FOREVER, LATEST, duration, micros, moment, to_datetime, to_instant, when
from windlass.errors import InvalidTask

moments = st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone


@given(moment=moments)
def test_instants_and_moments_are_the_same_thing_twice(moment: datetime) -> None:
    assert to_datetime(to_instant(moment)) == moment
    assert when(moment, 0, "at") == to_instant(moment)


@given(one=moments, other=moments)
def test_instants_keep_the_order(one: datetime, other: datetime) -> None:
    assert (to_instant(one) < to_instant(other)) == (one < other)


@given(moment=moments.filter(lambda moment: 1 < moment.year < 9999), hours=st.integers(-12, 14))
def test_a_zone_does_not_change_the_instant(moment: datetime, hours: int) -> None:
    assert to_instant(moment.astimezone(timezone(timedelta(hours=hours)))) == to_instant(moment)


@given(length=st.timedeltas(timedelta(days=-36_500), timedelta(days=36_500)), now=st.integers(0, 2**51))
def test_a_length_counts_from_now_exactly(length: timedelta, now: int) -> None:
    assert when(length, now, "delay") == max(EARLIEST, now + micros(length))
    assert timedelta(microseconds=micros(length)) == length


def test_an_early_time_counts_as_the_earliest_one() -> None:
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))  # before the first instant of UTC

    assert when(first, 0, "deadline") == EARLIEST
    assert when(timedelta(days=-999_999), 0, "delay") == EARLIEST


@pytest.mark.parametrize("instant", [-FOREVER, -1, LATEST + 1, FOREVER])
def test_any_stored_instant_can_be_shown(instant: int) -> None:
    assert to_datetime(instant) in (to_datetime(EARLIEST), to_datetime(LATEST))


def test_nothing_is_nothing() -> None:
    assert when(None, 7, "at") is None


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), 7, 7.5, "10m", "2026-01-01"], ids=repr)  # noqa: DTZ001
def test_what_is_no_time_is_refused_by_field(moment: Any) -> None:
    with pytest.raises(InvalidTask, match="deadline="):
        when(moment, 0, "deadline")


@pytest.mark.parametrize("moment", [timedelta.max, timedelta(days=3_000_000)], ids=str)
def test_a_time_beyond_the_calendar_is_refused_by_field(moment: timedelta) -> None:
    with pytest.raises(InvalidTask, match="expires="):
        when(moment, 0, "expires")


def test_the_end_of_the_calendar_lies_well_before_forever() -> None:
    assert to_datetime(LATEST).year == 9999
    assert to_instant(datetime.max.replace(tzinfo=UTC)) == LATEST
    assert 2 * LATEST < FOREVER


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (timedelta(minutes=5), timedelta(minutes=5)),
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        (" 2 d 1 h ", timedelta(days=2, hours=1)),
        ("1w", timedelta(weeks=1)),
    ],
    ids=str,
)
def test_a_duration_may_be_written_in_several_ways(written: object, meant: timedelta) -> None:
    assert duration(written, "timeout") == meant


@pytest.mark.parametrize(
    "written", ["soon", "", "30", "1y", "s", "-5s", None, True, float("nan"), 1e300, "9" * 80 + "w"]
)
def test_what_is_no_duration_is_refused_by_name(written: object) -> None:
    with pytest.raises(InvalidTask, match=r"^timeout=.* is not a duration"):
        duration(written, "timeout")


def test_a_moment_is_a_datetime_with_a_zone_or_a_duration() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)

    assert moment(noon, "at") is noon
    assert moment("10m", "deadline") == timedelta(minutes=10)
    with pytest.raises(InvalidTask, match="has no time zone"):
        moment(noon.replace(tzinfo=None), "at")
