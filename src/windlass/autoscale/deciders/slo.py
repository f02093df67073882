"""The default decider: the smallest size that keeps waits within the goal, with few and decisive steps.

It grows when the risk is real (`must`), to a size at which the risk is small (`want`). These two levels of risk are its
hysteresis. A backlog needs max(R, QS/W) workers, not the sum of the two, because the wait of later tasks falls while
the backlog is served.
"""

from __future__ import annotations

from math import ceil, sqrt

from msgspec import Struct

from windlass.autoscale.deciders.simple import staff
from windlass.autoscale.estimates import compute_offered_load, compute_reaction_time, compute_surprise
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation

RECOVERY, LATE_RECOVERY = 1.5, 0.5
"""The least time to clear a backlog, in reaction times. The second counts if starts take longer than the goal."""
CHANCE = 0.95
"""The share of the goal after which a waiting task is nearly late."""
PLAN, DRAIN, TRIGGER = 0.6, 0.8, 0.9
"""Shares of the goal within which a surprise clears, a backlog drains, and the pool must act."""
CALM = 0.4
"""The share of the slack for which a new backlog is watched, so that the first step has the right size."""
TREND = 60.0
"""Seconds that a growth looks ahead if the rate rises."""
WARM = 0.05
"""The share of the allowed lateness above which a pool with slow starts stays ready for its peaks."""
PRESSURE, PRESSED, PRESSED_MOST = 0.1, 0.4, 2.0
"""How much larger such a pool plans for each allowed lateness above the second number, up to the third."""
FEW = 20
"""The risk at which a pool with slow starts must grow, in multiples of the allowed lateness."""


class Figures(Struct, frozen=True, kw_only=True, gc=False):
    """The numbers from which the sizes of one tick are computed, in seconds, workers and worker-seconds."""

    goal: float
    reach: float
    """The reaction time H."""
    rate: float
    service: float
    load: float
    """The offered load R."""
    sigma: float
    """The work of one standard deviation of surprise within the reaction time."""
    due: int
    """Scheduled tasks that become due within the reaction time."""

    @property
    def slack(self) -> bool:
        """True if the goal leaves time to wait and see."""
        return self.goal >= 2 * self.reach


def compute_figures(moment: Moment) -> Figures:
    """Compute the numbers of this tick."""
    observed, estimates = moment.observed, moment.estimates
    goal, reach, service = moment.settings.wait, compute_reaction_time(observed), moment.service
    # If the goal leaves time for a second step, a young rise counts less.
    rate = estimates.jumps.discount(estimates.rates.rate, goal / reach)
    return Figures(
        goal=goal, reach=reach, rate=rate, service=service,
        load=compute_offered_load(rate, service, observed, reach), sigma=compute_surprise(estimates, reach) * service,
        due=observed.due_within(reach),
    )  # fmt: skip


def estimate_remaining_work(moment: Moment, at: Figures) -> float:
    """Return the worker-seconds of backlog, arrivals and due tasks that will remain after the reaction time."""
    observed = moment.observed
    work = (observed.queued + at.due) * at.service + at.load * at.reach
    coming = observed.ready * at.reach + observed.starting * max(0.0, at.reach - observed.start_delay)
    return max(0.0, work - coming)


def size_for_backlog(moment: Moment, at: Figures, patience: float) -> float:
    """Return the workers that clear the remaining work within `patience`, or within the least worthwhile time."""
    recovery = RECOVERY if at.goal >= at.reach else LATE_RECOVERY
    return estimate_remaining_work(moment, at) / max(patience, recovery * at.reach)


def size_for_queue(moment: Moment, at: Figures, goal: float) -> float:
    """Return the workers with which every queued task starts in time, if they are ready after the reaction time.

    A task starts after the tasks queued before it, so each age needs its own number of workers.
    """
    older, soon, left = float(moment.observed.queued), moment.observed.ready * at.reach, goal - at.reach
    most = (older * at.service - soon) / left
    for age, arrivals in enumerate(reversed(moment.estimates.raw)):
        older -= arrivals
        if age >= int(left) or older * at.service <= soon:
            break
        most = max(most, (older * at.service - soon) / (left - age))
    return most


def size_for_oldest(moment: Moment, at: Figures) -> float:
    """Return the workers that keep the oldest tasks in time, if tasks are few and long."""
    observed, span = moment.observed, CHANCE * at.goal - at.reach - 2
    if not observed.queued or not 0 < span < len(moment.estimates.raw) or at.service <= 0:
        return 0.0
    old = observed.queued - sum(moment.estimates.raw[-ceil(span) :])
    ends = observed.running * (at.reach + 2) / at.service
    short = old - max(0.0, ends - sqrt(ends)) - observed.starting
    return observed.alive + short if short > 0 else 0.0


def slo(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Recommend the smallest size that keeps waits within the goal."""
    at, observed = compute_figures(moment), moment.observed
    base = size_for_load(moment, at)
    must, backlog = size_for_risk(moment, at)
    ahead = (at.rate + moment.estimates.rates.slope * (at.reach + TREND)) * at.service
    # Never more workers than present and expected tasks.
    most = observed.queued + observed.running + at.due + ceil(at.rate * (at.reach + at.goal)) + 1
    recommendation = Recommendation(
        must=min(most, must),
        want=min(most, max(base, backlog, ahead)),
        keep=min(most, size_to_keep(moment, at, base)),
        peak=min(most, max(base, backlog)),
        reason=f"{observed.queued} runnable, oldest {observed.oldest:.1f} s, goal {at.goal:.1f} s",
    )
    return recommendation, moment.memory


def size_to_keep(moment: Moment, at: Figures, base: float) -> float:
    """Return the size that is kept. With slack, a few short tasks or a quiet minute do not shrink the pool."""
    if not at.slack:
        return base
    longer = max(1.0, moment.estimates.usual / at.service)
    return longer * max(base, staff(at.load, PLAN * at.goal / at.service, moment.settings.late))


def size_for_load(moment: Moment, at: Figures) -> float:
    """Return the size at which the goal is safe without a backlog."""
    estimates, late = moment.estimates, moment.settings.late
    size = max(at.load * (1.04 if at.slack else 1.10), guard(at.load, at.reach, 3 * at.sigma, PLAN * at.goal))
    if PLAN * at.goal < at.reach:
        size = max(size, staff(at.load, PLAN * at.goal / at.service, late))
    # Workers that start too late cannot help, so a pool that was late stays ready for the last half hour's peaks.
    if at.goal < at.reach and estimates.late_share > late * WARM:
        spent = max(0.0, min(PRESSED_MOST, estimates.late_share / late - PRESSED))
        size = max(size * (1 + PRESSURE * spent), estimates.warm * at.service)
    return size


def size_for_risk(moment: Moment, at: Figures) -> tuple[float, float]:
    """Return the size below which the goal is at risk, and the size that the backlog needs."""
    must = max(guard(at.load, at.reach, at.sigma, TRIGGER * at.goal), at.load * (0.6 if at.slack else 0.95))
    if at.goal < at.reach / 2:
        must = max(must, staff(at.load, TRIGGER * at.goal / at.service, min(0.5, FEW * moment.settings.late)))
    if moment.observed.queued and at.slack:
        return size_for_risk_with_slack(moment, at, must)
    backlog = size_for_backlog(moment, at, DRAIN * at.goal)
    # One or two ticks far above the rate may be a batch or a new rate; the third one decides.
    if not (moment.estimates.rates.excess and at.goal >= at.reach):
        must = max(must, estimate_remaining_work(moment, at) / (TRIGGER * at.goal), size_for_oldest(moment, at))
    return must, backlog


def size_for_risk_with_slack(moment: Moment, at: Figures, must: float) -> tuple[float, float]:
    """Return the same for a queue with slack: watch the queue for a while, then take one step of the right size."""
    backlog = size_for_queue(moment, at, DRAIN * at.goal)
    if not at.due and moment.observed.oldest < CALM * (at.goal - at.reach):
        return must, backlog
    recent = moment.estimates.rates.last(4) / 4 * at.service
    return max(must, size_for_queue(moment, at, TRIGGER * at.goal)), max(backlog, recent)


def guard(load: float, horizon: float, surprise: float, patience: float) -> float:
    """Return the workers that clear a surprise of this much work within `patience` after the reaction time."""
    return (load * horizon + surprise) / (horizon + patience)
