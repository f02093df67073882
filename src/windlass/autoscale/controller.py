"""All that a controller remembers from tick to tick: plain values, stored as JSON and read by any node.

A state that another version wrote still loads: fields it lacks have defaults, and fields it has too many are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from statistics import median_high

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.deciders.simple import read_app_decider, recommend_size
from windlass.autoscale.estimates import Estimates, Rates, learn
from windlass.autoscale.observe import Observation
from windlass.autoscale.pacing import (
    Bill,
    Bounds,
    Pace,
    apply_ceiling,
    apply_pacing,
    charge,
    compute_bounds,
    compute_hold,
)
from windlass.autoscale.recommendation import (
    DeciderMemory,
    Moment,
    Recommendation,
    Step,
    predict_wait,
    round_up,
    take_largest,
)
from windlass.autoscale.settings import Settings
from windlass.autoscale.vetoes import (
    Futility,
    Health,
    Outage,
    apply_breaker_veto,
    apply_health_vetoes,
    apply_load_vetoes,
)
from windlass.custom_decider import PoolSituation


class ControllerState(Struct, frozen=True, kw_only=True, gc=False):
    """The memory of one pool's controller."""

    version: int = 1
    target: int | None = None
    at: float | None = None
    began: float = 0.0
    arrivals: int = 0
    last_task: float | None = None
    estimates: Estimates = Estimates()
    pace: Pace = Pace()
    futility: Futility = Futility()
    outage: Outage = Outage()
    health: Health = Health()
    bill: Bill = Bill()
    memory: DeciderMemory = DeciderMemory()
    sizes: list[int] = []
    """One size for each minute of the last half hour, for times without data."""
    sized: float = 0.0
    """When the last of them was taken."""
    override: Override | None = None
    paused: bool = False


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The target of one tick, and all that a ledger tells about it."""

    target: int
    reasons: tuple[str, ...]
    """The chain, in the order in which it was decided; the last one settled it."""
    state: ControllerState
    alerts: tuple[str, ...] = ()
    recommendation: Recommendation | None = None
    wanted: int = 0
    """The size that the deciders asked for, before any veto or limit."""
    needs: float = 0.0
    """The same before rounding."""
    limited_by: str = ""
    """The word of the last step that moved the size away from what was wanted; empty if it is what was wanted."""
    limit_reason: str = ""
    """What that step says."""
    predicted_wait: float = 0.0
    """Seconds that a task which comes now will wait, with the size that the pool shall have."""

    def summarize(self, before: int) -> str:
        """The decision in one line, for a pool that had `before` workers."""
        limit = f" (wanted {self.wanted}): {self.limit_reason}" if self.limited_by else ""
        if self.target == before and limit:
            return f"= {self.target}{limit}"
        sign = "=" if self.target == before else "▲" if self.target > before else "▼"
        size = f"{before}→{self.target}" if self.target != before else f"{before}"
        return f"{sign} {size}  {self.reasons[0]}: needs {self.needs:.1f}{limit}"


def build_decision(
    steps: Sequence[Step],
    state: ControllerState,
    wish: Recommendation | None = None,
    alerts: Sequence[str] = (),
    predicted: float = 0.0,
) -> Decision:
    """The decision that these steps make; the first is what was wanted, the last is the target."""
    first, last = steps[0], steps[-1]
    moved = [step for before, step in pairwise(steps) if step.size != before.size] if last.size != first.size else []
    return Decision(
        target=last.size,
        reasons=tuple(step.reason for step in steps if step.reason),
        state=state,
        alerts=tuple(alerts),
        recommendation=wish,
        predicted_wait=predicted,
        wanted=first.size,
        needs=first.needs,
        limited_by=moved[-1].limit if moved else "",
        limit_reason=moved[-1].reason if moved else "",
    )


GAP = 5.0
"""Seconds without a tick after which the latest arrivals say nothing about now."""
STALE = 300.0
ADOPTED = 60.0
"""Seconds, or arrivals below, for which a controller that has just begun does not shrink what it found."""
ADOPTED_ARRIVALS = 100
MINUTE, HALF_HOUR = 60.0, 30


def tick(now: float, observed: Observation | None, state: ControllerState, settings: Settings) -> Decision:
    """Decide one tick. Without an observation the pool stays as it is."""
    if observed is None:
        return decide_without_data(now, state, settings)
    state = resume(now, observed, state)
    state = replace(state, bill=charge(now, observed, state.bill, settings))
    current = state.target if state.target is not None else observed.alive
    wish, state = ask_deciders(now, observed, state, settings, current)
    asked = wish.choose_size(current)
    steps = [Step(size=round_up(asked), reason=wish.reason, needs=asked)]
    moment = make_moment(now, observed, state, settings, current)
    granted, vetoes, state = apply_vetoes(moment, wish, state)
    # A growth beyond the ceiling must not be paid for, tick after tick.
    bounds = compute_bounds(moment, state.bill)
    granted, ceiling = apply_ceiling(moment, granted, bounds)
    step, pace = apply_pacing(now, granted, observed, state.pace, current, settings, is_adopting(now, observed, state))
    steps += [*vetoes, ceiling, step, apply_bounds(now, step.size, observed, state, bounds)]
    state = record_size(now, replace(state, target=steps[-1].size, pace=pace))
    orders, state = apply_override(now, steps[-1].size, state)
    return build_decision(
        [*steps, *orders],
        state,
        wish,
        alerts=find_alerts(state, wish, bounds, steps[-1].size),
        predicted=predict_wait(moment, steps[-1].size),
    )


def decide_without_data(now: float, state: ControllerState, settings: Settings) -> Decision:
    """The decision without data: as before for some minutes, then what the last half hour had in its middle."""
    size = state.target if state.target is not None else settings.floor
    step = Step(size=size, reason="no data: the size stays", limit="stale", needs=size)
    stale = state.at is None or now - state.at > STALE
    if stale and state.sizes:
        size = max(settings.floor, min(settings.ceiling, int(median_high(state.sizes))))
        step = Step(size=size, reason=f"no data: {size}, the middle of the last half hour", limit="stale", needs=size)
        state = replace(state, target=size)
    orders, state = apply_override(now, size, state)
    return build_decision([step, *orders], state, alerts=["signal_stale"] if stale else [])


def apply_vetoes(
    moment: Moment, wish: Recommendation, state: ControllerState
) -> tuple[Recommendation, list[Step], ControllerState]:
    """The wish after every veto. The breaker is first, since what it restores may still be more than is healthy."""
    wish, breaker, outage = apply_breaker_veto(moment, wish, state.outage)
    wish, vetoes, futility = apply_load_vetoes(moment, wish, state.futility)
    wish, ailments, health = apply_health_vetoes(moment, wish, state.health)
    return wish, [*breaker, *vetoes, *ailments], replace(state, outage=outage, futility=futility, health=health)


def record_size(now: float, state: ControllerState) -> ControllerState:
    """The state with one size for each minute."""
    if state.target is None or 0 <= now - state.sized < MINUTE:
        return state
    return replace(state, sizes=[*state.sizes[1 - HALF_HOUR :], state.target], sized=now)


def resume(now: float, observed: Observation, state: ControllerState) -> ControllerState:
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


def ask_deciders(
    now: float, observed: Observation, state: ControllerState, settings: Settings, current: int
) -> tuple[Recommendation, ControllerState]:
    """The largest wish of all deciders, and the state after they learnt."""
    state = replace(state, estimates=learn(state.estimates, observed, settings))
    wishes: list[Recommendation] = []
    for name in settings.deciders:
        if name not in DECIDERS:
            wishes.append(read_app_decider(name, observed, current))
            continue
        wish, memory = DECIDERS[name](make_moment(now, observed, state, settings, current))
        wishes.append(wish)
        state = replace(state, memory=memory)
    if observed.asked is not None:
        wishes.append(recommend_size(observed.asked, f"signals ask for {observed.asked}"))
    return take_largest(wishes), state


def make_moment(now: float, observed: Observation, state: ControllerState, settings: Settings, current: int) -> Moment:
    """This tick as a decider sees it."""
    return Moment(
        now=now, observed=observed, estimates=state.estimates, settings=settings, memory=state.memory, current=current
    )


def is_adopting(now: float, observed: Observation, state: ControllerState) -> bool:
    """Whether too little has been seen to send anybody away."""
    return now - state.began < max(ADOPTED, compute_hold(observed)) and state.arrivals < ADOPTED_ARRIVALS


def apply_bounds(now: float, size: int, observed: Observation, state: ControllerState, bounds: Bounds) -> Step:
    """The size between floor and ceiling; with a floor of 0 the last worker goes only after a long idle time."""
    floor = bounds.floor
    if floor == 0:
        if is_idle(now, observed, state, bounds.idle):
            return Step(size=0, reason="idle", limit="idle")
        floor = 1
    if size > bounds.ceiling:
        return Step(size=bounds.ceiling, reason=bounds.reason, limit=bounds.limit)
    return Step(size=max(floor, size), reason=f"floor {floor}" if size < floor else "", limit="floor")


def is_idle(now: float, observed: Observation, state: ControllerState, after: float) -> bool:
    """Whether nothing has run for long and nothing is due soon."""
    quiet = state.last_task is None or now - state.last_task >= after
    # A pool that is at 0 wakes for a task that is there or due within a start; it is not kept awake by far ones.
    ahead = observed.start_delay + (after if state.target else 1.0)
    here = observed.queued + observed.running + observed.arrivals
    return not here and not observed.due_within(ahead) and (quiet or state.target == 0)


def apply_override(now: float, size: int, state: ControllerState) -> tuple[list[Step], ControllerState]:
    """What people have ordered: an override until it ends, and a pause."""
    steps: list[Step] = []
    override = state.override
    if override is not None and override.is_active(now):
        steps.append(Step(size=override.apply(size), reason=override.describe(), limit="override"))
    elif override is not None:
        state = replace(state, override=None)
    if state.paused:
        steps.append(Step(size=0, reason="paused", limit="paused"))
    return steps, state


def describe_situation(
    pool: str, now: float, observed: Observation, state: ControllerState, settings: Settings, threads: int, slots: int
) -> PoolSituation:
    """Return a pool as its decider sees it; the controller counts in slots, people in workers."""
    return PoolSituation(
        pool=pool,
        now=now,
        workers=ceil(slots / threads),
        least=settings.floor // threads,
        most=settings.ceiling // threads,
        threads=threads,
        wait=settings.wait,
        queued=observed.queued,
        oldest=observed.oldest,
        running=observed.running,
        arrivals=state.estimates.rates.rate,
        service=state.estimates.service(settings),
        due=observed.due_within(MINUTE),
    )


def find_alerts(state: ControllerState, wish: Recommendation, bounds: Bounds, size: int) -> list[str]:
    """The alerts of a decided tick."""
    alerts: list[str] = []
    if wish.must > size >= bounds.ceiling:
        alerts.append("cost_capped" if bounds.limit == "cost" else "ceiling_bound")
    if state.pace.flaps:
        alerts.append("flapping")
    if state.health.stalled:
        alerts.append("stalled")
    if state.health.crashing:
        alerts.append("crash_loop")
    return alerts


class Override(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A size, or a range of sizes, that somebody has set until some moment."""

    least: int
    most: int
    until: float
    author: str = ""
    why: str = ""

    def is_active(self, now: float) -> bool:
        """Whether it still counts."""
        return now < self.until

    def apply(self, size: int) -> int:
        """The size that it makes of another."""
        return max(self.least, min(self.most, size))

    def describe(self) -> str:
        """In one sentence."""
        size = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"set to {size} by {self.author or 'somebody'}" + (f": {self.why}" if self.why else "")
