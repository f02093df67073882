"""The default law: the smallest size at which waits stay within the goal, with few and decisive steps.

It acts when the risk is real (`must`) and aims at a size where it is small (`want`): two levels of risk are its
hysteresis. The backlog needs max(R, QS/W) workers and not the sum of the two, because the wait of tasks that come later
falls while the backlog is served.
"""

from __future__ import annotations

from math import ceil

from windlass.autoscale.backlog import Figures, compute_figures, size_for_oldest, estimate_remaining_work, size_for_backlog, size_for_queue
from windlass.autoscale.load_overrides import Recommendation
from windlass.autoscale.moment import DeciderMemory, Moment
from windlass.autoscale.sizing import guard, staff

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
