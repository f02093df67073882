"""How many workers the present queue needs, beside the load that keeps coming."""

from __future__ import annotations

from math import ceil, sqrt

from msgspec import Struct

from windlass.autoscale.deciders.simple import staff
from windlass.autoscale.estimates import compute_offered_load, compute_reaction_time, compute_surprise
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation

RECOVERY, LATE_RECOVERY = 1.5, 0.5
"""Reaction times in which a backlog is cleared at least: the second where starts take longer than the goal."""
CHANCE = 0.95
"""The share of the goal at which a waiting task is on the brink."""


class Figures(Struct, frozen=True, kw_only=True, gc=False):
    """The numbers of one tick from which sizes are made. Seconds, workers, worker-seconds."""

    goal: float
    reach: float
    """The reaction time H."""
    rate: float
    service: float
    load: float
    """The offered load R."""
    sigma: float
    """The work that one standard deviation of a surprise brings within the reaction time."""
    due: int
    """Scheduled tasks within the reaction time."""

    @property
    def slack(self) -> bool:
        """Whether there is time to look twice before acting."""
        return self.goal >= 2 * self.reach


def compute_figures(moment: Moment) -> Figures:
    """The numbers of this tick."""
    observed, estimates = moment.observed, moment.estimates
    goal, reach, service = moment.settings.wait, compute_reaction_time(observed), moment.service
    # What is ordered too little can be ordered later, as far as the goal leaves time for it.
    rate = estimates.jumps.discount(estimates.rates.rate, goal / reach)
    return Figures(
        goal=goal, reach=reach, rate=rate, service=service,
        load=compute_offered_load(rate, service, observed, reach), sigma=compute_surprise(estimates, reach) * service,
        due=observed.due_within(reach),
    )  # fmt: skip


def estimate_remaining_work(moment: Moment, at: Figures) -> float:
    """The worker-seconds of backlog, arrivals and what is due that will be left after the reaction time."""
    observed = moment.observed
    work = (observed.queued + at.due) * at.service + at.load * at.reach
    coming = observed.ready * at.reach + observed.starting * max(0.0, at.reach - observed.start_delay)
    return max(0.0, work - coming)


def size_for_backlog(moment: Moment, at: Figures, patience: float) -> float:
    """The workers that clear in that time what will be left, though no faster than it pays."""
    recovery = RECOVERY if at.goal >= at.reach else LATE_RECOVERY
    return estimate_remaining_work(moment, at) / max(patience, recovery * at.reach)


def size_for_queue(moment: Moment, at: Figures, goal: float) -> float:
    """The workers with which every queued task starts in time, if they serve after the reaction time.

    A task that came some seconds ago starts after those queued before it, so each age asks for its own number.
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
    """The workers that keep the oldest tasks from being late, when tasks are few and long."""
    observed, span = moment.observed, CHANCE * at.goal - at.reach - 2
    if not observed.queued or not 0 < span < len(moment.estimates.raw) or at.service <= 0:
        return 0.0
    old = observed.queued - sum(moment.estimates.raw[-ceil(span) :])
    ends = observed.running * (at.reach + 2) / at.service
    short = old - max(0.0, ends - sqrt(ends)) - observed.starting
    return observed.alive + short if short > 0 else 0.0


PLAN, DRAIN, TRIGGER = 0.6, 0.8, 0.9
"""Shares of the goal: in which a surprise must clear, a backlog is drained, and action is due."""
CALM = 0.4
"""The share of the slack for which a young backlog is watched, so that the first step is the right one."""
TREND = 60.0
"""Seconds that a growth looks ahead along a rising rate."""
WARM = 0.05
"""The share of the allowed lateness above which a pool with slow starts keeps ready for its peaks."""
PRESSURE, PRESSED, PRESSED_MOST = 0.1, 0.4, 2.0
"""By how much such a pool plans more, for each allowed lateness beyond the second number, and up to the third."""
FEW = 20
"""The risk at which a pool whose workers start too slowly acts, in multiples of the allowed lateness."""


def slo(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """The wish of the default law."""
    at, observed = compute_figures(moment), moment.observed
    base = size_for_load(moment, at)
    must, backlog = size_for_risk(moment, at)
    ahead = (at.rate + moment.estimates.rates.slope * (at.reach + TREND)) * at.service
    # Never more workers than tasks that are there or expected.
    most = observed.queued + observed.running + at.due + ceil(at.rate * (at.reach + at.goal)) + 1
    wish = Recommendation(
        must=min(most, must),
        want=min(most, max(base, backlog, ahead)),
        keep=min(most, size_to_keep(moment, at, base)),
        peak=min(most, max(base, backlog)),
        reason=f"{observed.queued} runnable, oldest {observed.oldest:.1f} s, goal {at.goal:.1f} s",
    )
    return wish, moment.memory


def size_to_keep(moment: Moment, at: Figures, base: float) -> float:
    """What is not sent away. With slack, a few short tasks or a quiet minute are no reason to be just large enough."""
    if not at.slack:
        return base
    longer = max(1.0, moment.estimates.usual / at.service)
    return longer * max(base, staff(at.load, PLAN * at.goal / at.service, moment.settings.late))


def size_for_load(moment: Moment, at: Figures) -> float:
    """The size at which the goal is safe, without a backlog."""
    estimates, late = moment.estimates, moment.settings.late
    size = max(at.load * (1.04 if at.slack else 1.10), guard(at.load, at.reach, 3 * at.sigma, PLAN * at.goal))
    if PLAN * at.goal < at.reach:
        size = max(size, staff(at.load, PLAN * at.goal / at.service, late))
    # What starts too late cannot help, so a pool that has been late keeps ready for what the last half hour saw.
    if at.goal < at.reach and estimates.late_share > late * WARM:
        spent = max(0.0, min(PRESSED_MOST, estimates.late_share / late - PRESSED))
        size = max(size * (1 + PRESSURE * spent), estimates.warm * at.service)
    return size


def size_for_risk(moment: Moment, at: Figures) -> tuple[float, float]:
    """The size below which the goal is in danger, and the size that the backlog asks for."""
    must = max(guard(at.load, at.reach, at.sigma, TRIGGER * at.goal), at.load * (0.6 if at.slack else 0.95))
    if at.goal < at.reach / 2:
        must = max(must, staff(at.load, TRIGGER * at.goal / at.service, min(0.5, FEW * moment.settings.late)))
    if moment.observed.queued and at.slack:
        return size_for_risk_with_slack(moment, at, must)
    backlog = size_for_backlog(moment, at, DRAIN * at.goal)
    # One or two ticks far above the rate may be a batch or a new rate; the third tells.
    if not (moment.estimates.rates.excess and at.goal >= at.reach):
        must = max(must, estimate_remaining_work(moment, at) / (TRIGGER * at.goal), size_for_oldest(moment, at))
    return must, backlog


def size_for_risk_with_slack(moment: Moment, at: Figures, must: float) -> tuple[float, float]:
    """The same with a queue and with slack: watch it grow for a while, then take one step of the right size."""
    backlog = size_for_queue(moment, at, DRAIN * at.goal)
    if not at.due and moment.observed.oldest < CALM * (at.goal - at.reach):
        return must, backlog
    lately = moment.estimates.rates.last(4) / 4 * at.service
    return max(must, size_for_queue(moment, at, TRIGGER * at.goal)), max(backlog, lately)


def guard(load: float, horizon: float, surprise: float, patience: float) -> float:
    """Workers with which a surprise of that much work, come in the reaction time, is cleared within the patience."""
    return (load * horizon + surprise) / (horizon + patience)
