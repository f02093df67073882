"""One tick of the controller: what was observed → how large the pool shall be, why, and what to remember.

The order is fixed: deciders wish and the largest wish counts, vetoes lower it, the pace makes a step of it, bounds
hold, people overrule, and a pause outranks all. Nothing here reads a clock or a store, so the simulator runs this very
code, and whichever node takes the tick goes on where the last one stopped.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.estimators import Estimates, learn
from windlass.autoscale.limits import Pace, hold_of, paced
from windlass.autoscale.moment import Memory, Moment
from windlass.autoscale.observations import Observation
from windlass.autoscale.overrides import Override
from windlass.autoscale.rates import Rates
from windlass.autoscale.settings import Settings
from windlass.autoscale.vetoes import Futility, lowered, vetoed
from windlass.autoscale.wishes import Wish, largest

GAP = 5.0
"""Seconds without a tick after which the latest arrivals say nothing about now."""
STALE = 300.0
ADOPTED = 60.0
"""Seconds, or arrivals below, for which a controller that has just begun does not shrink what it found."""
ADOPTED_ARRIVALS = 100


class State(Struct, frozen=True, kw_only=True, gc=False):
    """All that a controller remembers: plain values, stored as JSON."""

    version: int = 1
    target: int | None = None
    at: float | None = None
    began: float = 0.0
    arrivals: int = 0
    last_task: float | None = None
    estimates: Estimates = Estimates()
    pace: Pace = Pace()
    futility: Futility = Futility()
    memory: Memory = Memory()
    override: Override | None = None
    paused: bool = False


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """What one tick came to."""

    target: int
    reasons: tuple[str, ...]
    """The chain, in the order in which it was decided; the last one settled it."""
    state: State
    alerts: tuple[str, ...] = ()
    wish: Wish | None = None


def tick(now: float, observed: Observation | None, state: State, settings: Settings) -> Decision:
    """Decide one tick. Without an observation the pool stays as it is."""
    if observed is None:
        return blind(now, state, settings)
    state = resumed(now, observed, state)
    current = state.target if state.target is not None else observed.alive
    wish, state = wished(now, observed, state, settings, current)
    moment = seen(now, observed, state, settings, current)
    wish, vetoes, futility = vetoed(moment, wish, state.futility)
    # A growth beyond the ceiling must not be paid for, tick after tick.
    size, step, pace = paced(now, lowered(wish, settings.ceiling), observed, state.pace, current, settings.wait)
    if size < current and adopting(now, observed, state):
        size, step = current, "held: the controller has just begun"
    bounded, bound = within(now, size, observed, state, settings)
    state = replace(state, target=bounded, pace=pace, futility=futility)
    target, orders, state = ordered(now, bounded, state)
    alerts = ("ceiling_bound",) if wish.must > bounded >= settings.ceiling else ()
    if now < pace.calm_at:
        alerts = (*alerts, "flapping")
    return Decision(
        target=target, reasons=(wish.reason, *vetoes, step, *bound, *orders), state=state, alerts=alerts, wish=wish
    )


def blind(now: float, state: State, settings: Settings) -> Decision:
    """The decision without data: never smaller than before, and an alert when it lasts."""
    size = state.target if state.target is not None else settings.floor
    target, orders, state = ordered(now, size, state)
    stale = state.at is None or now - state.at > STALE
    return Decision(
        target=target,
        reasons=("no data: the size stays", *orders),
        state=state,
        alerts=("signal_stale",) if stale else (),
    )


def resumed(now: float, observed: Observation, state: State) -> State:
    """The state as this tick finds it; after a gap, what was learnt stays but the windows are empty."""
    fresh = state.at is None or now - state.at > GAP
    if fresh:
        estimates = replace(state.estimates, rates=Rates(), raw=[], forecasts=[], block=[])
        target = max(observed.alive, state.target or 0) if state.at is not None else observed.alive
        state = replace(state, began=now, arrivals=0, estimates=estimates, target=target, last_task=now)
    tasks = observed.queued + observed.running + observed.arrivals
    return replace(
        state, at=now, arrivals=state.arrivals + observed.arrivals, last_task=now if tasks else state.last_task
    )


def wished(now: float, observed: Observation, state: State, settings: Settings, current: int) -> tuple[Wish, State]:
    """The largest wish of all deciders, and the state after they learnt."""
    state = replace(state, estimates=learn(state.estimates, observed, settings))
    wishes: list[Wish] = []
    for name in settings.deciders:
        wish, memory = DECIDERS[name](seen(now, observed, state, settings, current))
        wishes.append(wish)
        state = replace(state, memory=memory)
    return largest(wishes), state


def seen(now: float, observed: Observation, state: State, settings: Settings, current: int) -> Moment:
    """This tick as a decider sees it."""
    return Moment(
        now=now, observed=observed, estimates=state.estimates, settings=settings, memory=state.memory, current=current
    )


def adopting(now: float, observed: Observation, state: State) -> bool:
    """Whether too little has been seen to send anybody away."""
    return now - state.began < max(ADOPTED, hold_of(observed)) and state.arrivals < ADOPTED_ARRIVALS


def within(
    now: float, size: int, observed: Observation, state: State, settings: Settings
) -> tuple[int, tuple[str, ...]]:
    """The size between floor and ceiling; with a floor of 0 the last worker goes only after a long idle time."""
    floor = settings.floor
    if floor == 0:
        if idle(now, observed, state, settings):
            return 0, ("idle",)
        floor = 1
    bounded = max(floor, min(settings.ceiling, size))
    return bounded, () if bounded == size else (f"bounds {floor} to {settings.ceiling}",)


def idle(now: float, observed: Observation, state: State, settings: Settings) -> bool:
    """Whether nothing has run for long and nothing is due soon."""
    quiet = state.last_task is None or now - state.last_task >= settings.idle
    # A pool that is at 0 wakes for a task that is there or due within a start; it is not kept awake by far ones.
    ahead = observed.start_delay + (settings.idle if state.target else 1.0)
    here = observed.queued + observed.running + observed.arrivals
    return not here and not observed.due_within(ahead) and (quiet or state.target == 0)


def ordered(now: float, size: int, state: State) -> tuple[int, tuple[str, ...], State]:
    """What people have ordered: an override until it ends, and a pause."""
    override = state.override
    if override is not None and not override.holds(now):
        state = replace(state, override=None)
    elif override is not None:
        size = override.applied(size)
    told = (override.told(),) if override is not None and override.holds(now) else ()
    if state.paused:
        return 0, (*told, "paused"), state
    return size, told, state
