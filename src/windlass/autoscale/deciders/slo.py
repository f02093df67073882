"""The default law: the smallest size at which waits stay within the goal, with few and decisive steps.

It acts when the risk is real (`must`) and aims at a size where it is small (`want`): two levels of risk are its
hysteresis. The backlog needs max(R, QS/W) workers and not the sum of the two, because the wait of tasks that come later
falls while the backlog is served.
"""

from __future__ import annotations

from math import ceil, sqrt

from windlass.autoscale.estimators import Estimates, horizon, learn, offered, surprise
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.sizing import guard, staff
from windlass.autoscale.wishes import Wish

PLAN, DRAIN, TRIGGER = 0.6, 0.7, 0.9
"""Shares of the goal: in which a surprise must clear, a backlog is drained, and action is due."""
CALM = 0.4
TREND = 60.0
"""Seconds that a growth looks ahead along a rising rate."""


def slo(now: float, observed: Observation, state: Estimates, settings: Settings) -> tuple[Wish, Estimates]:
    """The wish of the default law, and what it has learnt."""
    del now
    state = learn(state, observed, settings)
    return wish(observed, state, settings), state


def wish(observed: Observation, state: Estimates, settings: Settings) -> Wish:
    """The wish that follows from estimates."""
    reach, goal = horizon(observed), settings.wait
    rate, service = state.rates.rate, state.service(settings)
    load = offered(rate, service, observed, reach)
    slack = goal >= 2 * reach
    sigma = surprise(state, reach) * service
    base = max(load * (1.04 if slack else 1.10), guard(load, reach, 3 * sigma, PLAN * goal))
    if PLAN * goal < reach:
        base = max(base, staff(load, PLAN * goal / service, settings.late))
    if goal < reach and state.late_share > settings.late / 2:
        base = max(base, state.warm * service)
    due = observed.due_within(reach) * service
    must = max(guard(load, reach, sigma, TRIGGER * goal), load * (0.6 if slack else 0.95))
    backlog = react(observed, load, service, reach, due, DRAIN * goal)
    if observed.queued and slack:
        backlog = urgent(observed, state, service, reach, DRAIN * goal)
        if due or observed.oldest >= CALM * (goal - reach):
            must = max(must, urgent(observed, state, service, reach, TRIGGER * goal))
            backlog = max(backlog, state.rates.last(4) / 4 * service)
    else:
        must = max(
            must,
            react(observed, load, service, reach, due, TRIGGER * goal),
            last_chance(observed, state, service, reach, goal),
        )
    if goal < reach / 2:
        must = max(must, staff(load, TRIGGER * goal / service, min(0.5, 20 * settings.late)))
    ahead = (rate + state.rates.slope * (reach + TREND)) * service
    if state.failing:
        must = 0.0
        base = max(base, float(observed.alive))
    most = observed.queued + observed.running + observed.due_within(reach) + ceil(rate * (reach + goal)) + 1
    return Wish(
        must=min(must, most), want=min(most, max(base, backlog, ahead)), keep=min(base, most),
        peak=min(most, max(base, backlog)),
        reason=f"{observed.queued} queued, oldest {observed.oldest:.1f} s, goal {goal:g} s, load {load:.1f}",
    )  # fmt: skip


def react(observed: Observation, load: float, service: float, reach: float, due: float, patience: float) -> float:
    """The workers that serve backlog, arrivals and what is due in the reaction time, each within its patience."""
    work = observed.queued * service + load * reach + due
    coming = observed.ready * reach + observed.starting * max(0.0, reach - observed.start_delay)
    return max(0.0, work - coming) / max(patience, reach / 2)


def urgent(observed: Observation, state: Estimates, service: float, reach: float, goal: float) -> float:
    """The workers with which every queued task starts in time, if they serve after the reaction time.

    A task that came m seconds ago starts after those queued before it, so each m asks for its own number.
    """
    older, most = float(observed.queued), 0.0
    soon = observed.ready * reach
    ticks = state.raw
    for age in range(int(goal - reach)):
        if older * service <= soon or age >= len(ticks):
            break
        older -= ticks[-1 - age]
        most = max(most, (older * service - soon) / (goal - reach - age))
    return max(most, (observed.queued * service - soon) / (goal - reach))


def last_chance(observed: Observation, state: Estimates, service: float, reach: float, goal: float) -> float:
    """The workers that keep the oldest tasks from being late, when tasks are few and long."""
    span = 0.95 * goal - reach - 2
    if not observed.queued or span <= 0 or service <= 0:
        return 0.0
    urgent = observed.queued - sum(state.raw[-ceil(span) :]) if span < 60 else 0.0
    ends = observed.running * (reach + 2) / service
    short = urgent - max(0.0, ends - sqrt(ends)) - observed.starting
    return observed.alive + short if short > 0 else 0.0
