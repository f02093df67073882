from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.times import FOREVER, LATEST, micros, to_datetime, to_instant, when
from windlass.errors import InvalidTask

moments = st.datetimes(timezones=st.just(UTC))


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
    assert when(length, now, "delay") == now + micros(length)
    assert timedelta(microseconds=micros(length)) == length


def test_nothing_is_nothing() -> None:
    assert when(None, 7, "at") is None


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), 7, 7.5, "10m", "2026-01-01"], ids=repr)  # noqa: DTZ001
def test_what_is_no_time_is_refused_by_field(moment: Any) -> None:
    with pytest.raises(InvalidTask, match="deadline="):
        when(moment, 0, "deadline")


@pytest.mark.parametrize("moment", [timedelta.max, timedelta.min, timedelta(days=3_000_000)], ids=str)
def test_a_time_beyond_the_calendar_is_refused_by_field(moment: timedelta) -> None:
    with pytest.raises(InvalidTask, match="expires="):
        when(moment, 0, "expires")


def test_the_end_of_the_calendar_lies_well_before_forever() -> None:
    assert to_datetime(LATEST).year == 9999
    assert to_instant(datetime.max.replace(tzinfo=UTC)) == LATEST
    assert 2 * LATEST < FOREVER
