from __future__ import annotations

import pytest

from windlass.core.breaker import (
    PROBES,
    Breaker,
    BreakerSettings,
    BreakerState,
    advance,
    attempts_allowed,
    decode,
    drop_dead_probes,
    encode,
    force,
    record,
    reset,
    return_probes,
    sentence,
    take_probes,
)
from windlass.core.times import Micros

SECOND: Micros = 1_000_000
NOON: Micros = 1_794_830_400 * SECOND


def opened(times: int = 1) -> Breaker:
    """A breaker that has just opened for the nth time in a row, at noon."""
    breaker = record(Breaker(), NOON, attempts=10, errors=10, error="TimeoutError")
    for _ in range(times - 1):
        assert breaker.until is not None
        breaker = record(breaker, breaker.until, probes=2, probe_errors=2)
    return breaker


def half_open() -> Breaker:
    return advance(opened(), NOON + 30 * SECOND)


def test_a_new_breaker_lets_everything_through() -> None:
    assert attempts_allowed(Breaker(), NOON) is None


def test_more_than_half_of_twenty_attempts_failing_within_half_a_minute_opens_it() -> None:
    breaker = Breaker()
    for second in range(9):
        breaker = record(breaker, NOON + second * SECOND, attempts=2, errors=1)
    assert breaker.state is BreakerState.CLOSED

    breaker = record(breaker, NOON + 9 * SECOND, attempts=2, errors=2)

    assert breaker.state is BreakerState.OPEN
    assert breaker.reason == "11 of 20 attempts within 30 s failed"
    assert attempts_allowed(breaker, NOON + 9 * SECOND) == 0


def test_exactly_half_is_not_enough() -> None:
    assert record(Breaker(), NOON, attempts=100, errors=50).state is BreakerState.CLOSED


def test_fewer_than_twenty_attempts_do_not_count_as_a_share() -> None:
    assert record(Breaker(), NOON, attempts=19, errors=18).state is BreakerState.CLOSED


def test_failures_older_than_the_window_are_forgotten() -> None:
    breaker = record(Breaker(), NOON, attempts=19, errors=18)

    breaker = record(breaker, NOON + 31 * SECOND, attempts=1, errors=0)

    assert (breaker.state, breaker.attempts, breaker.errors) == (BreakerState.CLOSED, 1, 0)


def test_ten_failures_in_a_row_open_it_however_slowly_they_come() -> None:
    breaker = Breaker()
    for hour in range(9):
        breaker = record(breaker, NOON + hour * 3_600 * SECOND, attempts=1, errors=1)
    assert breaker.state is BreakerState.CLOSED

    breaker = record(breaker, NOON + 9 * 3_600 * SECOND, attempts=1, errors=1, error="HTTPError: 503")

    assert breaker.state is BreakerState.OPEN
    assert breaker.reason == "10 attempts in a row failed, most recently with HTTPError: 503"


def test_one_success_ends_the_row() -> None:
    breaker = record(Breaker(), NOON, attempts=9, errors=9)
    breaker = record(breaker, NOON, attempts=1, errors=0)

    assert record(breaker, NOON, attempts=9, errors=9).row == 9


def test_recording_nothing_changes_nothing() -> None:
    breaker = record(Breaker(), NOON, attempts=5, errors=2)

    assert record(breaker, NOON + 5 * SECOND) is breaker


def test_an_open_breaker_becomes_half_open_after_half_a_minute() -> None:
    breaker = opened()

    assert attempts_allowed(breaker, NOON + 30 * SECOND - 1) == 0
    assert attempts_allowed(breaker, NOON + 30 * SECOND) == PROBES
    assert advance(breaker, NOON + 45 * SECOND).since == NOON + 30 * SECOND


def test_attempts_that_began_before_it_opened_no_longer_count() -> None:
    late = record(opened(), NOON + SECOND, attempts=50, errors=50)
    assert late == opened()

    late = record(half_open(), NOON + 31 * SECOND, attempts=50, errors=50)
    assert (late.state, late.good, late.bad) == (BreakerState.HALF_OPEN, 0, 0)


@pytest.mark.parametrize(("times", "seconds"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (60, 600)])
def test_it_stays_open_twice_as_long_each_time_that_probes_fail_up_to_ten_minutes(times: int, seconds: int) -> None:
    breaker = opened(times)

    assert breaker.until is not None
    assert breaker.until - breaker.since == seconds * SECOND
    assert breaker.opened == times


def test_no_more_probes_are_given_out_than_may_be_under_way() -> None:
    now = NOON + 30 * SECOND
    breaker, first = take_probes(opened(), now, "a", 2)
    breaker, second = take_probes(breaker, now, "b", 5)
    breaker, third = take_probes(breaker, now, "c", 1)

    assert (first, second, third) == (2, 1, 0)
    assert breaker.probing == {"a": 2, "b": 1}
    assert attempts_allowed(breaker, now) == 0

    breaker = record(breaker, now + SECOND, probes=1, by="a")
    assert (breaker.probing, attempts_allowed(breaker, now)) == ({"a": 1, "b": 1}, 1)


def test_no_probe_is_given_out_unless_it_is_half_open() -> None:
    assert take_probes(Breaker(), NOON, "a", 3) == (Breaker(), 0)
    assert take_probes(opened(), NOON + SECOND, "a", 3) == (opened(), 0)


def test_probes_that_never_ran_and_probes_of_dead_nodes_are_free_again() -> None:
    breaker, _ = take_probes(half_open(), NOON + 30 * SECOND, "a", 2)
    breaker, _ = take_probes(breaker, NOON + 30 * SECOND, "b", 1)

    assert return_probes(breaker, "a", 2).probing == {"b": 1}
    assert drop_dead_probes(breaker, {"a"}).probing == {"a": 2}
    assert drop_dead_probes(breaker, {"a", "b", "c"}) is breaker


def test_five_good_probes_close_it_with_nothing_counted_yet() -> None:
    now = NOON + 31 * SECOND
    breaker = record(half_open(), now, probes=4)
    assert breaker.state is BreakerState.HALF_OPEN

    breaker = record(breaker, now, probes=1)

    assert breaker == Breaker(since=now, reason="5 of 5 probes succeeded")


def test_one_bad_probe_among_them_is_forgiven_and_the_second_is_not() -> None:
    once = record(half_open(), NOON + 31 * SECOND, probes=1, probe_errors=1)

    assert record(once, NOON + 32 * SECOND, probes=5).state is BreakerState.CLOSED
    again = record(once, NOON + 32 * SECOND, probes=1, probe_errors=1)
    assert (again.state, again.reason, again.opened) == (BreakerState.OPEN, "2 of 2 probes failed", 2)


def test_good_probes_must_also_be_a_large_enough_share() -> None:
    strict = BreakerSettings(good_share=0.9)
    breaker = record(half_open(), NOON + 31 * SECOND, probes=6, probe_errors=1, settings=strict)
    assert breaker.state is BreakerState.HALF_OPEN

    assert record(breaker, NOON + 31 * SECOND, probes=4, settings=strict).state is BreakerState.CLOSED


def test_once_closed_the_next_opening_is_short_again() -> None:
    breaker = opened(4)
    assert breaker.until is not None
    breaker = record(breaker, breaker.until, probes=5)

    breaker = record(breaker, breaker.since, attempts=10, errors=10)

    assert breaker.until == breaker.since + 30 * SECOND


def test_an_operator_holds_it_open_against_every_success() -> None:
    breaker = force(Breaker(), NOON, BreakerState.OPEN, by="ann", why="maintenance")

    assert record(breaker, NOON + 9_999 * SECOND, attempts=100, probes=9) == breaker
    assert attempts_allowed(breaker, NOON + 9_999 * SECOND) == 0


def test_an_operator_holds_it_closed_against_every_failure() -> None:
    breaker = force(opened(), NOON, BreakerState.CLOSED, by="ann", until=NOON + 60 * SECOND)

    breaker = record(breaker, NOON + 59 * SECOND, attempts=100, errors=100)
    assert attempts_allowed(breaker, NOON + 59 * SECOND) is None
    breaker = record(breaker, NOON + 61 * SECOND, attempts=100, errors=100)
    assert (breaker.state, breaker.forced_by) == (BreakerState.OPEN, "")


def test_a_breaker_held_open_becomes_half_open_when_its_time_is_over() -> None:
    breaker = force(Breaker(), NOON, BreakerState.OPEN, by="ann", until=NOON + 60 * SECOND)

    half = advance(breaker, NOON + 60 * SECOND)

    assert (half.state, half.forced_by) == (BreakerState.HALF_OPEN, "")


def test_running_probes_are_kept_when_an_operator_holds_or_closes_the_breaker() -> None:
    breaker, _ = take_probes(half_open(), NOON + 30 * SECOND, "a", 2)

    held = force(breaker, NOON + 31 * SECOND, BreakerState.OPEN, by="ann")

    assert held.probing == reset(held, NOON, by="ann").probing == {"a": 2}


def test_a_late_record_does_not_move_time_backwards() -> None:
    breaker = record(reset(opened(), NOON, by="ann"), NOON - 40 * SECOND, attempts=9, errors=9)
    breaker = record(breaker, NOON - 50 * SECOND, attempts=1, errors=1)

    assert (breaker.state, breaker.since) == (BreakerState.OPEN, NOON)


def test_a_breaker_closed_by_an_operator_opens_again_by_the_usual_rule() -> None:
    breaker = reset(opened(), NOON + SECOND, by="ann")

    assert attempts_allowed(breaker, NOON + SECOND) is None
    assert record(breaker, NOON + 2 * SECOND, attempts=10, errors=10).state is BreakerState.OPEN


def test_a_stored_breaker_can_be_decoded_and_invalid_text_counts_as_closed() -> None:
    breaker, _ = take_probes(half_open(), NOON + 30 * SECOND, "a", 2)

    assert decode(encode(breaker)) == breaker
    assert decode('{"state":"open","until":5,"colour":"red"}') == Breaker(state=BreakerState.OPEN, until=5)
    assert decode("") == decode("nonsense") == Breaker()


def test_each_state_has_its_sentence() -> None:
    sentences = [
        sentence("payments", record(Breaker(), NOON, attempts=8, errors=3), NOON),
        sentence("payments", opened(), NOON),
        sentence("payments", record(half_open(), NOON, probes=3, probe_errors=1), NOON),
        sentence("payments", force(Breaker(), NOON, BreakerState.OPEN, by="ann", why="maintenance"), NOON),
        sentence("payments", force(Breaker(), NOON, BreakerState.CLOSED, by="ann", until=NOON + SECOND), NOON),
    ]

    assert sentences == [
        "payments is closed: 3 of the last 8 attempts failed",
        "payments is open since 12:00:00 UTC until 12:00:30 UTC: 10 attempts in a row failed, "
        "most recently with TimeoutError",
        "payments is half-open since 12:00:30 UTC: 2 probes succeeded, 1 failed, 0 are running; "
        "it opened because 10 attempts in a row failed, most recently with TimeoutError",
        'payments is held open by ann since 12:00:00 UTC until it is closed by hand: "maintenance"',
        "payments is held closed by ann since 12:00:00 UTC until 12:00:01 UTC",
    ]


def test_a_late_record_is_added_to_earlier_ones() -> None:
    breaker = record(Breaker(), NOON + 20 * SECOND, attempts=10, errors=5)

    breaker = record(breaker, NOON + 5 * SECOND, attempts=9, errors=5)

    assert (breaker.attempts, breaker.errors) == (19, 10)
