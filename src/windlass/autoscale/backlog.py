"""How many workers the present queue needs, beside the load that keeps coming."""

from __future__ import annotations

from math import ceil, sqrt

from msgspec import Struct

from windlass.autoscale.estimators import compute_reaction_time, compute_offered_load, compute_surprise
from windlass.autoscale.moment import Moment

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


def predict_wait(moment: Moment, size: int) -> float:
    """Seconds that a task which comes now will wait, if that many workers serve those before it."""
    return moment.observed.queued * moment.service / max(1, size)


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
