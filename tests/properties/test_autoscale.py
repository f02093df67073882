"""Properties of the controller that hold for every load."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builders import a_pin
from windlass.autoscale.controller import ControllerState, tick
from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.shares import SlotRequest, divide_slots, divide_target
from windlass.simulation.policies import use_deciders
from windlass.simulation.scenarios import SCENARIOS
from windlass.simulation.simulated_pool import SimulatedPool

counts = st.integers(0, 500)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Draw an observation."""
    arrivals, completions, ready = draw(counts), draw(counts), draw(st.integers(0, 60))
    running, started, queued = draw(st.integers(0, ready)), draw(counts), draw(counts)
    return Observation(
        queued=queued, oldest=draw(st.floats(0.1, 600)) if queued else 0.0,
        arrivals=arrivals, scheduled=draw(st.integers(0, arrivals)), retried=draw(counts),
        completions=completions, errors=draw(st.integers(0, completions)), busy=draw(st.floats(0, 60)),
        started=started, late=draw(st.integers(0, started)), ready=ready, running=running,
        starting=draw(st.integers(0, 20)), draining=draw(st.integers(0, 20)),
        start_delay=draw(st.sampled_from([0.0, 0.05, 2.0, 30.0, 90.0])),
        due=tuple((ahead, draw(counts)) for ahead in draw(st.lists(st.floats(0, 120), max_size=2))),
        limit=draw(st.none() | st.integers(0, 40)), deaths=draw(st.sampled_from([0, 0, 0, 1, 5])),
        breaker=draw(st.sampled_from(["closed", "closed", "closed", "open", "half_open"])),
    )  # fmt: skip


lives = st.lists(observations(), min_size=1, max_size=30).map(lambda few: few * 4)
pools = st.builds(
    Settings,
    wait=st.sampled_from([0.5, 5.0, 60.0]),
    min=st.integers(0, 3),
    max=st.integers(3, 50),
    deciders=st.sampled_from([("slo",), ("slo", "due"), *((name,) for name in DECIDERS)]),
    step_up=st.none() | st.integers(1, 5),
    step_down=st.none() | st.integers(1, 5),
    cooldown_up=st.sampled_from([0.0, 0.0, 7.0]),
    cooldown_down=st.sampled_from([0.0, 0.0, 7.0]),
    price=st.sampled_from([0.0, 1.0]),
    cost_per_hour=st.none() | st.floats(0.0, 50.0),
)


@given(lives, pools)
@settings(max_examples=60, deadline=None)
def test_the_bounds_are_always_kept(life: list[Observation], pool: Settings) -> None:
    state = ControllerState()
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state

        assert pool.min <= decision.target <= pool.max
        assert decision.reasons


@given(lives, pools)
@settings(max_examples=30, deadline=None)
def test_missing_data_never_shrinks_a_pool(life: list[Observation], pool: Settings) -> None:
    state, size = ControllerState(), None
    for second, observed in enumerate(life):
        decision = tick(float(second), observed if second % 3 == 0 else None, state, pool)

        assert size is None or second % 3 == 0 or decision.target >= size
        state, size = decision.state, decision.target


@given(lives, pools)
@settings(max_examples=30, deadline=None)
def test_a_stored_state_decides_the_same(life: list[Observation], pool: Settings) -> None:
    kept = stored = ControllerState()
    for second, observed in enumerate(life):
        one, other = tick(float(second), observed, kept, pool), tick(float(second), observed, stored, pool)

        assert one == other
        kept, stored = one.state, msgspec.json.decode(msgspec.json.encode(other.state), type=ControllerState)


@given(lives, pools, st.integers(0, 80), st.integers(1, 100))
@settings(max_examples=30, deadline=None)
def test_an_override_is_respected_until_its_end(life: list[Observation], pool: Settings, size: int, until: int) -> None:
    state = ControllerState(override=a_pin(size, until=float(until)))
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state

        assert decision.target == size if second < until else state.override is None


@given(lives, pools)
@settings(max_examples=20, deadline=None)
def test_a_paused_pool_has_no_workers(life: list[Observation], pool: Settings) -> None:
    state = ControllerState(paused=True)
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state

        assert decision.target == 0


@given(lives)
@settings(max_examples=40, deadline=None)
def test_it_never_grows_beyond_present_and_expected_tasks(life: list[Observation]) -> None:
    pool, state, size = Settings(max=10_000), ControllerState(), None
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state
        reach = observed.start_delay + 2
        expected = state.estimates.rates.rate * (reach + pool.wait) + observed.due_within(reach)

        if size is not None and decision.target > max(size, pool.min):
            assert decision.target <= observed.queued + observed.running + expected + 3
        size = decision.target


@given(lives)
@settings(max_examples=30, deadline=None)
def test_it_never_grows_while_attempts_fail(life: list[Observation]) -> None:
    pool, state, size = Settings(max=10_000, min=0), ControllerState(), None
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state

        assert size is None or not state.estimates.failing or decision.target <= max(size, 1)
        size = decision.target


@given(lives, pools)
@settings(max_examples=60, deadline=None)
def test_cooldowns_and_steps_are_obeyed(life: list[Observation], pool: Settings) -> None:
    state, size, grown, changed = ControllerState(), None, -1e9, -1e9
    pool = msgspec.structs.replace(pool, min=1, max=10_000, cost_per_hour=None)
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        before, state, size = size, decision.state, decision.target
        if before is None or size == before:
            continue
        if size > before:
            assert second - grown >= pool.cooldown_up
            assert pool.step_up is None or size - before <= pool.step_up
            grown = second
        else:
            assert second - changed >= pool.cooldown_down
            assert pool.step_down is None or before - size <= pool.step_down
        changed = second


@given(lives, pools)
@settings(max_examples=60, deadline=None)
def test_it_never_grows_into_an_outage_or_a_crash_loop(life: list[Observation], pool: Settings) -> None:
    pool = msgspec.structs.replace(pool, min=1)
    state, size = ControllerState(), None
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        state = decision.state

        if observed.breaker == "open" or state.health.crashing or state.health.stalled:
            assert size is None or decision.target <= max(size, pool.min)
        size = decision.target


@given(lives, st.integers(0, 2000), st.sampled_from([0.5, 5.0, 60.0]))
@settings(max_examples=60, deadline=None)
def test_a_longer_queue_never_lowers_the_recommendation(life: list[Observation], more: int, wait: float) -> None:
    pool, state = Settings(max=10_000, wait=wait), ControllerState()
    for second, observed in enumerate(life):
        state = tick(float(second), observed, state, pool).state
    last = msgspec.structs.replace(life[-1], queued=max(1, life[-1].queued), oldest=max(0.1, life[-1].oldest))
    longer = msgspec.structs.replace(last, queued=last.queued + more)
    few, many = (tick(float(len(life)), each, state, pool).recommendation for each in (last, longer))

    assert few is not None
    assert many is not None
    assert few.must <= many.must + 1e-9


@given(lives, pools)
@settings(max_examples=30, deadline=None)
def test_every_summary_has_the_target_and_its_limit(life: list[Observation], pool: Settings) -> None:
    state, before = ControllerState(), 1
    for second, observed in enumerate(life):
        decision = tick(float(second), observed, state, pool)
        summary = decision.summarize(before)

        assert str(decision.target) in summary
        assert (decision.limited_by == "") == (decision.wanted == decision.target)
        assert decision.limit_reason in summary
        state, before = decision.state, decision.target


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_load_is_resized_at_most_twice_an_hour(seed: int) -> None:
    load = msgspec.structs.replace(SCENARIOS["steady"].draw("steady", seed), delay=0.05)
    start, policy = use_deciders("slo")(load)
    world, sizes = SimulatedPool(load, start), list[int]()
    for _ in range(load.length):
        seen = world.advance()
        world.resize(policy(world.now, seen))
        sizes.append(world.target)

    settled = sizes[1800:]
    assert sum(one != other for one, other in itertools.pairwise(settled)) <= 2 * len(settled) / 3600


claims = st.lists(
    st.builds(
        SlotRequest,
        pool=st.text("abcdefgh", min_size=1, max_size=3),
        min=st.integers(0, 3),
        must=st.integers(0, 30),
        want=st.integers(0, 60),
        priority=st.integers(0, 2),
        weight=st.floats(0.5, 4.0),
        waited=st.floats(0, 20),
    ),
    max_size=6,
    unique_by=lambda claim: claim.pool,
)


@given(claims, st.integers(0, 100))
def test_a_budget_is_never_overspent(asked: list[SlotRequest], slots: int) -> None:
    given_out = divide_slots(asked, slots)

    assert sum(given_out.values()) <= max(slots, sum(claim.min for claim in asked))
    assert all(claim.min <= given_out[claim.pool] <= max(claim.min, claim.must, claim.want) for claim in asked)


@given(st.integers(0, 200), st.dictionaries(st.text(min_size=1), st.integers(0, 64)))
def test_the_shares_of_the_nodes_add_up(target: int, maximums: dict[str, int]) -> None:
    given_out = divide_target(target, maximums)

    assert sum(given_out.values()) == min(target, sum(maximums.values()))
    assert all(given_out[session] <= maximums[session] for session in maximums)
