"""One tick of the controller: what was observed → how large the pool shall be, why, and what to remember.

The order is fixed: deciders wish and the largest wish counts, vetoes lower it, the pace makes a step of it, bounds
hold, people overrule, and a pause outranks all. Nothing here reads a clock or a store, so the simulator runs this very
code, and whichever node takes the tick goes on where the last one stopped.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.deciders.simple import plain
from windlass.autoscale.decisions import Decision, decided
from windlass.autoscale.estimators import learn
from windlass.autoscale.limits import hold_of, paced
from windlass.autoscale.moment import Moment
from windlass.autoscale.observations import Observation
from windlass.autoscale.rates import Rates
from windlass.autoscale.settings import Settings
from windlass.autoscale.state import State
from windlass.autoscale.vetoes import vetoed
from windlass.autoscale.wishes import Step, Wish, largest, lowered, whole

__all__ = ["Decision", "State", "tick"]

GAP = 5.0
"""Seconds without a tick after which the latest arrivals say nothing about now."""
STALE = 300.0
ADOPTED = 60.0
"""Seconds, or arrivals below, for which a controller that has just begun does not shrink what it found."""
ADOPTED_ARRIVALS = 100


def tick(now: float, observed: Observation | None, state: State, settings: Settings) -> Decision:
    """Decide one tick. Without an observation the pool stays as it is."""
    if observed is None:
        return blind(now, state, settings)
    state = resumed(now, observed, state)
    current = state.target if state.target is not None else observed.alive
    wish, state = wished(now, observed, state, settings, current)
    asked = wish.asks(current)
    steps = [Step(size=whole(asked), why=wish.reason, needs=asked)]
    granted, vetoes, futility = vetoed(seen(now, observed, state, settings, current), wish, state.futility)
    steps += vetoes
    # A growth beyond the ceiling must not be paid for, tick after tick.
    granted = lowered(granted, settings.ceiling)
    bound = whole(granted.asks(current))
    why = f"ceiling {settings.ceiling}" if bound < steps[-1].size else ""
    steps.append(Step(size=bound, why=why, word="ceiling"))
    step, pace = paced(now, granted, observed, state.pace, current, settings.wait, adopting(now, observed, state))
    steps += [step, within(now, step.size, observed, state, settings)]
    state = replace(state, target=steps[-1].size, pace=pace, futility=futility)
    orders, state = ordered(now, steps[-1].size, state)
    alerts = ["ceiling_bound"] if wish.must > steps[-1].size >= settings.ceiling else []
    if now < pace.calm_at:
        alerts.append("flapping")
    return decided([*steps, *orders], state, wish, alerts)


def blind(now: float, state: State, settings: Settings) -> Decision:
    """The decision without data: never smaller than before, and an alert when it lasts."""
    size = state.target if state.target is not None else settings.floor
    orders, state = ordered(now, size, state)
    stale = state.at is None or now - state.at > STALE
    held = Step(size=size, why="no data: the size stays", word="stale", needs=size)
    return decided([held, *orders], state, alerts=["signal_stale"] if stale else [])


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
    if observed.asked is not None:
        wishes.append(plain(observed.asked, f"signals ask for {observed.asked}"))
    return largest(wishes), state


def seen(now: float, observed: Observation, state: State, settings: Settings, current: int) -> Moment:
    """This tick as a decider sees it."""
    return Moment(
        now=now, observed=observed, estimates=state.estimates, settings=settings, memory=state.memory, current=current
    )


def adopting(now: float, observed: Observation, state: State) -> bool:
    """Whether too little has been seen to send anybody away."""
    return now - state.began < max(ADOPTED, hold_of(observed)) and state.arrivals < ADOPTED_ARRIVALS


def within(now: float, size: int, observed: Observation, state: State, settings: Settings) -> Step:
    """The size between floor and ceiling; with a floor of 0 the last worker goes only after a long idle time."""
    floor = settings.floor
    if floor == 0:
        if idle(now, observed, state, settings):
            return Step(size=0, why="idle", word="idle")
        floor = 1
    bounded = max(floor, min(settings.ceiling, size))
    why = "" if bounded == size else f"bounds {floor} to {settings.ceiling}"
    return Step(size=bounded, why=why, word="floor" if bounded > size else "ceiling")


def idle(now: float, observed: Observation, state: State, settings: Settings) -> bool:
    """Whether nothing has run for long and nothing is due soon."""
    quiet = state.last_task is None or now - state.last_task >= settings.idle
    # A pool that is at 0 wakes for a task that is there or due within a start; it is not kept awake by far ones.
    ahead = observed.start_delay + (settings.idle if state.target else 1.0)
    here = observed.queued + observed.running + observed.arrivals
    return not here and not observed.due_within(ahead) and (quiet or state.target == 0)


def ordered(now: float, size: int, state: State) -> tuple[list[Step], State]:
    """What people have ordered: an override until it ends, and a pause."""
    steps: list[Step] = []
    override = state.override
    if override is not None and override.holds(now):
        steps.append(Step(size=override.applied(size), why=override.told(), word="override"))
    elif override is not None:
        state = replace(state, override=None)
    if state.paused:
        steps.append(Step(size=0, why="paused", word="paused"))
    return steps, state
