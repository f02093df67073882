"""The input and output of a decider: a moment, and a recommendation.

A recommendation has three sizes instead of one, because growing and shrinking carry different risks.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.estimates import DecayingMean, Estimates
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings


class DeciderMemory(Struct, frozen=True, kw_only=True, gc=False):
    """The state of the deciders between ticks. The default decider uses `Estimates` instead."""

    above: int = 0
    """Consecutive ticks above the upper threshold, and below the lower one."""
    below: int = 0
    direction: int = 0
    """1 after `threshold` grew, -1 after it shrank."""
    use: DecayingMean = DecayingMean()
    """The smoothed utilization of `threshold` and of the derivative of `pid`."""
    calm: int = 0
    """Consecutive ticks without a queue, for `aimd`."""
    integral: float = 0.0
    measured: float | None = None
    """The last measurement of `pid`, for its derivative."""
    bin: float = 0.0
    """The arrivals and ticks in the current bin."""
    bin_ticks: int = 0
    bins: list[float] = []
    """The latest full bins, for the forecasts."""
    level: float = 0.0
    trend: float = 0.0
    season: list[float] = []
    """The difference from the level for each bin of the day."""
    week: list[float] = []
    """The further difference for each hour of the week."""
    seasoned: int = 0
    """The number of bins learned."""
    error: float = 0.0
    """Mean square errors of the seasonal forecast and of the naive one ("same as now"), over about a day."""
    naive: float = 0.0


class Moment(Struct, frozen=True, kw_only=True, gc=False):
    """The input of a decider at one tick."""

    now: float
    """Seconds since the epoch; a simulation may start at 0."""
    observed: Observation
    estimates: Estimates
    settings: Settings
    memory: DeciderMemory
    current: int
    """The current target size."""

    @property
    def service(self) -> float:
        """The mean run time in seconds."""
        return self.estimates.service(self.settings)

    @property
    def load(self) -> float:
        """The offered load: the number of workers that it keeps busy."""
        return self.estimates.rates.rate * self.service


class Recommendation(Struct, frozen=True, kw_only=True, gc=False):
    """The sizes that one decider recommends at one tick."""

    must: float
    """The size below which the goal is at risk. The pool grows if it is smaller."""
    want: float
    """The size to grow to."""
    keep: float
    """The size that the load needs in the long run. Shrinking stops at its maximum over the hold."""
    peak: float = 0.0
    """The size that the load needs with the backlog. Shrinking stops at its maximum over the short hold."""
    reason: str = ""

    def choose_size(self, current: int) -> float:
        """Return the size for a pool of the current size: larger if it must grow, smaller if it may shrink."""
        if self.must > current:
            return max(self.want, current)
        return min(current, max(self.keep, self.peak))


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One step from the recommendation to the target: the size after it, and the reason."""

    size: int
    reason: str = ""
    limit: str = ""
    """The name of the limit in metrics and lists; see `Decision.limited_by`."""
    needs: float = 0.0
    """The size before rounding, in the first step."""


def round_up(size: float) -> int:
    """Round a size up to whole workers. Allow for rounding errors of sums."""
    return ceil(size - 1e-9)


def cap_at(recommendation: Recommendation, most: float) -> Recommendation:
    """Return the recommendation with no size above a number of workers."""
    return replace(
        recommendation,
        must=min(recommendation.must, most),
        want=min(recommendation.want, most),
        keep=min(recommendation.keep, most),
        peak=min(recommendation.peak, most),
    )


def raise_to(recommendation: Recommendation, least: float) -> Recommendation:
    """Return the recommendation with no size below a number of workers."""
    return replace(
        recommendation,
        must=max(recommendation.must, least),
        want=max(recommendation.want, least),
        keep=max(recommendation.keep, least),
        peak=max(recommendation.peak, least),
    )


def hold_at(recommendation: Recommendation, size: int) -> Recommendation:
    """Return the recommendation without growth above or shrinking below this size."""
    return replace(cap_at(recommendation, size), keep=float(size))


def make_step(recommendation: Recommendation, current: int, limit: str, reason: str) -> Step:
    """Return the step that leads to this recommendation."""
    return Step(size=round_up(recommendation.choose_size(current)), reason=reason, limit=limit)


def take_largest(recommendations: list[Recommendation]) -> Recommendation:
    """Combine recommendations. The largest counts, with its reason."""
    if len(recommendations) == 1:
        return recommendations[0]
    return Recommendation(
        must=max(each.must for each in recommendations),
        want=max(each.want for each in recommendations),
        keep=max(each.keep for each in recommendations),
        peak=max(each.peak for each in recommendations),
        reason=max(recommendations, key=lambda each: (each.must, each.want)).reason,
    )


def predict_wait(moment: Moment, size: int) -> float:
    """Return the seconds that a new task will wait if this many workers serve the queue."""
    return moment.observed.queued * moment.service / max(1, size)
