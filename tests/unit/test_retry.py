from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import OOPS
from windlass.core.retry import Error, ErrorRule, Retry
from windlass.core.times import micros
from windlass.errors import InvalidTask

MINUTE = timedelta(minutes=1)
durations = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365))
chances = st.floats(0, 1, exclude_max=True)


@given(retries=st.integers(0, 1_000), base=durations, cap=durations, attempt=st.integers(1, 1_001), chance=chances)
def test_each_delay_lies_in_the_jitter_interval_and_under_the_cap(
    retries: int, base: timedelta, cap: timedelta, attempt: int, chance: float
) -> None:
    policy = Retry(retries=retries, base=base, cap=cap)
    policy.check()

    delay = policy.next_delay(attempt, OOPS, lambda: chance)

    if attempt > retries:
        assert delay is None
    else:
        middle = micros(base) * 2 ** min(attempt - 1, 60)
        assert delay is not None
        assert min(micros(cap), middle // 2) <= delay <= min(micros(cap), middle + middle // 2 + 1)


@given(attempt=st.integers(1, 60), chance=chances)
def test_delays_double_from_attempt_to_attempt(attempt: int, chance: float) -> None:
    policy = Retry(retries=99, base=timedelta(microseconds=1_024), cap=timedelta(days=365))

    first, second = (policy.next_delay(n, OOPS, lambda: chance) for n in (attempt, attempt + 1))

    assert first is not None
    assert second is not None
    assert second == micros(policy.cap) or abs(second - 2 * first) <= 2


def test_n_retries_are_n_and_one_attempts() -> None:
    policy = Retry(retries=3)

    assert [policy.next_delay(n, OOPS, lambda: 0.5) is not None for n in (1, 2, 3, 4)] == [True, True, True, False]


def test_the_defaults_are_three_retries_from_ten_seconds_to_an_hour() -> None:
    delays = [Retry().next_delay(n, OOPS, lambda: 0.5) for n in (1, 2, 3)]

    assert delays == [10_000_000, 20_000_000, 40_000_000]
    assert Retry(retries=99).next_delay(50, OOPS, lambda: 0.5) == micros(timedelta(hours=1))


def test_a_wish_is_taken_as_it_is_but_buys_no_further_attempt() -> None:
    policy = Retry(retries=1, cap=MINUTE)

    assert policy.next_delay(1, OOPS, lambda: 0.5, wish=10 * micros(MINUTE)) == 10 * micros(MINUTE)
    assert policy.next_delay(2, OOPS, lambda: 0.5, wish=1) is None


def test_the_first_rule_that_fits_the_error_counts() -> None:
    policy = Retry(
        rules=(
            ErrorRule(error="HTTP*", base=MINUTE),
            ErrorRule(error="HTTPGone", retries=0),
            ErrorRule(error="KeyError", retries=0),
            ErrorRule(error="Often", retries=50),
        )
    )

    assert policy.next_delay(1, Error(kind="HTTPGone"), lambda: 0.5) == micros(MINUTE)
    assert policy.next_delay(1, Error(kind="KeyError"), lambda: 0.5) is None
    assert policy.next_delay(50, Error(kind="Often"), lambda: 0.5) is not None
    assert policy.next_delay(1, Error(kind="keyerror"), lambda: 0.5) == 10_000_000


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"retries": -1}, "retries"),
        ({"retries": 1_001}, "retries"),
        ({"base": -MINUTE}, "base"),
        ({"base": timedelta(days=366)}, "base"),
        ({"cap": timedelta(days=366)}, "cap"),
        ({"rules": (ErrorRule(error="E", retries=-1),)}, "rules"),
        ({"rules": (ErrorRule(error="E", base=-MINUTE),)}, "rules"),
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_followed_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidTask, match=named):
        Retry(**changes).check()
