"""Decide one tick of a pool: from an observation to a target, its reasons, and the state for the next tick.

The order is fixed: the deciders recommend and the largest recommendation counts, vetoes lower it, the maximum and the
pacing turn it into a step, bounds hold, an operator's override replaces it, and a pause outranks everything. Nothing
here reads a clock or a store, so the simulator runs the same code, and any node can continue from the stored state.
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
    apply_max,
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
    round_up,
    take_largest,
)
from windlass.autoscale.settings import Settings
from windlass.autoscale.vetoes import (
    GrowthTest,
    Health,
    Outage,
    apply_breaker_veto,
    apply_health_vetoes,
    apply_load_vetoes,
)
from windlass.custom_decider import PoolSituation

GAP = 5.0
"""Seconds without a tick after which recent arrivals no longer count."""
STALE = 300.0
ADOPTED = 60.0
"""Seconds, or arrivals, for which a new controller does not shrink the pool."""
ADOPTED_ARRIVALS = 100
MINUTE, HALF_HOUR = 60.0, 30


class Override(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A size, or a range of sizes, that an operator has set for some time."""

    min: int
    max: int
    until: float
    author: str = ""
    why: str = ""

    def is_active(self, now: float) -> bool:
        """Return True if the override has not expired."""
        return now < self.until

    def apply(self, size: int) -> int:
        """Return the size within the range."""
        return max(self.min, min(self.max, size))

    def describe(self) -> str:
        """Return the override in one line."""
        size = str(self.min) if self.min == self.max else f"{self.min} to {self.max}"
        return f"set to {size} by {self.author or 'an operator'}" + (f": {self.why}" if self.why else "")


class ControllerState(Struct, frozen=True, kw_only=True, gc=False):
    """The state of a controller between ticks, stored as JSON.

    States of other versions still load: missing fields have defaults, and unknown fields are ignored.
    """

    target: int | None = None
    at: float | None = None
    began: float = 0.0
    arrivals: int = 0
    last_task: float | None = None
    estimates: Estimates = Estimates()
    pace: Pace = Pace()
    futility: GrowthTest = GrowthTest()
    outage: Outage = Outage()
    health: Health = Health()
    bill: Bill = Bill()
    memory: DeciderMemory = DeciderMemory()
    sizes: list[int] = []
    """One size for each minute of the last half hour, used without data."""
    sized: float = 0.0
    """When the last of these sizes was recorded."""
    override: Override | None = None
    paused: bool = False


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The result of one tick: the target, and what the ledger records about it."""

    target: int
    reasons: tuple[str, ...]
    """The reasons of all steps, in order. The last one decided the target."""
    state: ControllerState
    alerts: tuple[str, ...] = ()
    recommendation: Recommendation | None = None
    wanted: int = 0
    """The recommended size, before vetoes and limits."""
    needs: float = 0.0
    """The recommended size before rounding."""
    limited_by: str = ""
    """The last limit that changed the size; empty if the target is the recommended size. Metrics count by these names:
    `max`, `window`, `cost`, `min`, `idle`, `hold`, `budget`, `cooldown`, `step`, `flapping`, `starting`,
    `adopting`, `restored`, `stale`, `override`, `paused`, and `veto:` with `breaker`, `errors`, `futile`, `limit`,
    `stalled` or `crashes`."""
    limit_reason: str = ""
    """The reason of that limit."""

    def summarize(self, before: int) -> str:
        """Return the decision in one line, for a pool that had `before` workers."""
        limit = f" (wanted {self.wanted}): {self.limit_reason}" if self.limited_by else ""
        if self.target == before and limit:
            return f"= {self.target}{limit}"
        sign = "=" if self.target == before else "▲" if self.target > before else "▼"
        size = f"{before}→{self.target}" if self.target != before else f"{before}"
        return f"{sign} {size}  {self.reasons[0]}: needs {self.needs:.1f}{limit}"


def build_decision(
    steps: Sequence[Step],
    state: ControllerState,
    recommendation: Recommendation | None = None,
    alerts: Sequence[str] = (),
) -> Decision:
    """Build a decision from its steps. The first has the recommended size, the last the target."""
    first, last = steps[0], steps[-1]
    moved = [step for before, step in pairwise(steps) if step.size != before.size] if last.size != first.size else []
    return Decision(
        target=last.size,
        reasons=tuple(step.reason for step in steps if step.reason),
        state=state,
        alerts=tuple(alerts),
        recommendation=recommendation,
        wanted=first.size,
        needs=first.needs,
        limited_by=moved[-1].limit if moved else "",
        limit_reason=moved[-1].reason if moved else "",
    )


def tick(now: float, observed: Observation | None, state: ControllerState, settings: Settings) -> Decision:
    """Decide one tick. Without an observation the size does not change for some minutes."""
    if observed is None:
        return decide_without_data(now, state, settings)
    state = resume(now, observed, state)
    state = replace(state, bill=charge(now, observed, state.bill, settings))
    current = state.target if state.target is not None else observed.alive
    recommendation, state = ask_deciders(now, observed, state, settings, current)
    asked = recommendation.choose_size(current)
    steps = [Step(size=round_up(asked), reason=recommendation.reason, needs=asked)]
    moment = make_moment(now, observed, state, settings, current)
    granted, vetoes, state = apply_vetoes(moment, recommendation, state)
    # The maximum comes before the pacing, so that growth above it does not use up the resize budget.
    bounds = compute_bounds(moment, state.bill)
    granted, capped = apply_max(moment, granted, bounds)
    step, pace = apply_pacing(now, granted, observed, state.pace, current, settings, is_adopting(now, observed, state))
    steps += [*vetoes, capped, step, apply_bounds(now, step.size, observed, state, bounds)]
    state = record_size(now, replace(state, target=steps[-1].size, pace=pace))
    overrides, state = apply_override(now, steps[-1].size, state)
    return build_decision(
        [*steps, *overrides],
        state,
        recommendation,
        alerts=find_alerts(state, recommendation, bounds, steps[-1].size),
    )


def decide_without_data(now: float, state: ControllerState, settings: Settings) -> Decision:
    """Keep the size for some minutes, then use the median of the last half hour."""
    size = state.target if state.target is not None else settings.min
    step = Step(size=size, reason="no data: the size is unchanged", limit="stale", needs=size)
    stale = state.at is None or now - state.at > STALE
    if stale and state.sizes:
        size = max(settings.min, min(settings.max, int(median_high(state.sizes))))
        step = Step(size=size, reason=f"no data: {size}, the median of the last half hour", limit="stale", needs=size)
        state = replace(state, target=size)
    overrides, state = apply_override(now, size, state)
    return build_decision([step, *overrides], state, alerts=["signal_stale"] if stale else [])


def apply_vetoes(
    moment: Moment, recommendation: Recommendation, state: ControllerState
) -> tuple[Recommendation, list[Step], ControllerState]:
    """Apply every veto. The breaker comes first, because the others may limit the size that it restores."""
    recommendation, breaker, outage = apply_breaker_veto(moment, recommendation, state.outage)
    recommendation, vetoes, futility = apply_load_vetoes(moment, recommendation, state.futility)
    recommendation, health_vetoes, health = apply_health_vetoes(moment, recommendation, state.health)
    return (
        recommendation,
        [*breaker, *vetoes, *health_vetoes],
        replace(state, outage=outage, futility=futility, health=health),
    )


def record_size(now: float, state: ControllerState) -> ControllerState:
    """Record the size once per minute."""
    if state.target is None or 0 <= now - state.sized < MINUTE:
        return state
    return replace(state, sizes=[*state.sizes[1 - HALF_HOUR :], state.target], sized=now)


def resume(now: float, observed: Observation, state: ControllerState) -> ControllerState:
    """Update times and arrivals. After a gap, drop the recent arrivals but keep everything else."""
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
    """Return the largest recommendation of all deciders, and the updated state."""
    state = replace(state, estimates=learn(state.estimates, observed, settings))
    recommendations: list[Recommendation] = []
    for name in settings.deciders:
        if name not in DECIDERS:
            recommendations.append(read_app_decider(name, observed, current))
            continue
        recommendation, memory = DECIDERS[name](make_moment(now, observed, state, settings, current))
        recommendations.append(recommendation)
        state = replace(state, memory=memory)
    if observed.asked is not None:
        recommendations.append(recommend_size(observed.asked, f"signals ask for {observed.asked}"))
    return take_largest(recommendations), state


def make_moment(now: float, observed: Observation, state: ControllerState, settings: Settings, current: int) -> Moment:
    """Return the input for a decider."""
    return Moment(
        now=now, observed=observed, estimates=state.estimates, settings=settings, memory=state.memory, current=current
    )


def is_adopting(now: float, observed: Observation, state: ControllerState) -> bool:
    """Return True if the controller is too new to shrink the pool."""
    return now - state.began < max(ADOPTED, compute_hold(observed)) and state.arrivals < ADOPTED_ARRIVALS


def apply_bounds(now: float, size: int, observed: Observation, state: ControllerState, bounds: Bounds) -> Step:
    """Apply minimum and maximum. With a minimum of 0, the last worker stops only after the idle time."""
    least = bounds.min
    if least == 0:
        if is_idle(now, observed, state, bounds.idle):
            return Step(size=0, reason="idle", limit="idle")
        least = 1
    if size > bounds.max:
        return Step(size=bounds.max, reason=bounds.reason, limit=bounds.limit)
    return Step(size=max(least, size), reason=f"min {least}" if size < least else "", limit="min")


def is_idle(now: float, observed: Observation, state: ControllerState, after: float) -> bool:
    """Return True if nothing has run for long and nothing is due soon."""
    quiet = state.last_task is None or now - state.last_task >= after
    # A pool at 0 starts for tasks that are due within a start delay; other pools stay up for the whole idle time.
    ahead = observed.start_delay + (after if state.target else 1.0)
    here = observed.queued + observed.running + observed.arrivals
    return not here and not observed.due_within(ahead) and (quiet or state.target == 0)


def apply_override(now: float, size: int, state: ControllerState) -> tuple[list[Step], ControllerState]:
    """Apply the operator's override until it expires, and the pause."""
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
    """Return the input for a decider of the app. The controller counts slots, the app counts workers."""
    return PoolSituation(
        pool=pool,
        now=now,
        workers=ceil(slots / threads),
        min=settings.min // threads,
        max=settings.max // threads,
        threads=threads,
        wait=settings.wait,
        queued=observed.queued,
        oldest=observed.oldest,
        running=observed.running,
        arrivals=state.estimates.rates.rate,
        service=state.estimates.service(settings),
        due=observed.due_within(MINUTE),
    )


def find_alerts(state: ControllerState, recommendation: Recommendation, bounds: Bounds, size: int) -> list[str]:
    """Return the alerts of a tick."""
    alerts: list[str] = []
    if recommendation.must > size >= bounds.max:
        alerts.append("cost_capped" if bounds.limit == "cost" else "at_max")
    if state.pace.flaps:
        alerts.append("flapping")
    if state.health.stalled:
        alerts.append("stalled")
    if state.health.crashing:
        alerts.append("crash_loop")
    return alerts
