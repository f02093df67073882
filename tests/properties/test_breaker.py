"""Properties that hold for every breaker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.breaker import (
    PROBES,
    Breaker,
    BreakerState,
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
NODES: tuple[str, ...] = ("a", "b", "c")

counts = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (max(pair), min(pair)))
steps = st.lists(
    st.tuples(
        st.sampled_from(["recorded", "take", "probes ended", "returned", "died", "forced", "reset"]),
        st.integers(-40, 700).map(lambda seconds: seconds * SECOND),
        st.sampled_from(NODES),
        counts,
    ),
    max_size=60,
)
# Chance alone seldom opens a breaker and comes back when probes may run, so half of the stories begin there.
PROBED = [("recorded", 0, "a", (60, 60)), ("take", 31 * SECOND, "a", (2, 0)), ("take", 0, "b", (1, 0))]
happenings = st.tuples(st.sampled_from([[], PROBED]), steps).map(lambda parts: [*parts[0], *parts[1]])


class World:
    """Three nodes and the breaker they share; it counts what is truly under way."""

    def __init__(self) -> None:
        self.breaker, self.now = Breaker(), 10**15
        self.under_way = dict.fromkeys(NODES, 0)

    def happens(self, what: str, passed: Micros, node: str, count: tuple[int, int]) -> None:
        """`passed` may be below zero: attempts need not be recorded in order."""
        at = self.now + passed
        self.now = max(self.now, at)
        mine, (attempts, errors) = self.under_way[node], count
        match what:
            case "recorded":
                self.breaker = record(self.breaker, at, attempts=attempts, errors=errors)
            case "take":
                self.breaker, got = take_probes(self.breaker, at, node, attempts)
                self.under_way[node] += got
            case "probes ended":
                ended = min(mine, attempts)
                self.breaker = record(self.breaker, at, probes=ended, probe_errors=min(ended, errors), by=node)
                self.under_way[node] -= ended
            case "returned":
                self.breaker = return_probes(self.breaker, node, mine)
                self.under_way[node] = 0
            case "died":
                self.breaker = drop_dead_probes(self.breaker, set(NODES) - {node})
                self.under_way[node] = 0
            case "forced":
                state = BreakerState.OPEN if errors % 2 else BreakerState.CLOSED
                until = at + attempts * SECOND if attempts % 2 else None
                self.breaker = force(self.breaker, at, state, by=node, until=until)
            case _:
                self.breaker = reset(self.breaker, at, by=node)


def after(steps: list[tuple[str, Micros, str, tuple[int, int]]]) -> World:
    world = World()
    for step in steps:
        world.happens(*step)
    return world


@given(happenings)
def test_never_more_probes_are_under_way_than_allowed(steps: list[tuple[str, Micros, str, tuple[int, int]]]) -> None:
    world = World()
    for step in steps:
        world.happens(*step)
        assert world.breaker.under_way == sum(world.under_way.values()) <= PROBES
        left = attempts_allowed(world.breaker, world.now)
        assert left is None or 0 <= left <= PROBES - world.breaker.under_way


@given(happenings)
def test_its_times_never_run_backwards_while_nobody_interferes(
    steps: list[tuple[str, Micros, str, tuple[int, int]]],
) -> None:
    world = World()
    for step in steps:
        before = world.breaker
        if step[0] in {"forced", "reset"}:
            continue
        world.happens(*step)
        assert world.breaker.since >= before.since
        starts = [each.start for each in world.breaker.window]
        assert starts == sorted(set(starts))
        assert len(starts) <= 11
        if world.breaker.state is BreakerState.OPEN:
            assert world.breaker.until is not None
            assert 30 * SECOND <= world.breaker.until - world.breaker.since <= 600 * SECOND


@given(happenings, st.integers(1, 20))
def test_it_opens_under_sustained_failure(
    steps: list[tuple[str, Micros, str, tuple[int, int]]], each_second: int
) -> None:
    world = after(steps)
    breaker, now = reset(world.breaker, world.now, by="ann"), world.now

    for second in range(10):
        breaker = record(breaker, now + second * SECOND, attempts=each_second, errors=each_second)

    assert breaker.state is BreakerState.OPEN


@given(happenings, st.integers(1, 5))
def test_it_closes_again_under_sustained_success(
    steps: list[tuple[str, Micros, str, tuple[int, int]]], seconds: int
) -> None:
    world = after(steps)
    breaker, now = drop_dead_probes(world.breaker, ()), world.now
    if breaker.forced_by:
        breaker = force(breaker, now, BreakerState.OPEN, by="ann", until=now)

    # The longest time that it is open, and one probe of at most five seconds after another.
    for _ in range(600 // seconds + 6):
        now += seconds * SECOND
        breaker, got = take_probes(breaker, now, "a", 1)
        breaker = record(breaker, now, attempts=1, probes=got, by="a")

    assert breaker.state is BreakerState.CLOSED


@given(happenings)
def test_it_can_be_stored_and_put_into_words_at_any_time(steps: list[tuple[str, Micros, str, tuple[int, int]]]) -> None:
    world = after(steps)

    assert decode(encode(world.breaker)) == world.breaker
    assert len(encode(world.breaker)) < 1_000
    assert sentence("payments", world.breaker, world.now).startswith("payments is ")
