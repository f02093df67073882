"""What a decider sees, and what it may keep from one tick to the next."""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.estimates import (
    Estimates,
    Fading,
)
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings


class DeciderMemory(Struct, frozen=True, kw_only=True, gc=False):
    """What the simple deciders remember; the default one remembers `Estimates` only."""

    above: int = 0
    """Ticks in a row above the upper mark of `threshold`, and below the lower one."""
    below: int = 0
    direction: int = 0
    """1 after `threshold` grew, -1 after it shrank."""
    use: Fading = Fading()
    """The smoothed utilisation of `threshold` and of the derivative of `pid`."""
    calm: int = 0
    """Ticks in a row that `aimd` saw no queue."""
    integral: float = 0.0
    measured: float | None = None
    """The last measurement of `pid`, whose derivative acts on it."""
    bin: float = 0.0
    """Arrivals in the bin that is being filled, and how many ticks it has."""
    bin_ticks: int = 0
    bins: list[float] = []
    """The latest full bins, for the forecasts."""
    level: float = 0.0
    trend: float = 0.0
    season: list[float] = []
    """One additive value for each bin of the day."""
    week: list[float] = []
    """And one for each hour of the week, which says how that day differs from the others."""
    seasoned: int = 0
    """Bins that have taught them."""
    error: float = 0.0
    """Mean square errors of the seasonal forecast and of `same as now`, over about a day."""
    naive: float = 0.0


class Moment(Struct, frozen=True, kw_only=True, gc=False):
    """One tick, as a decider sees it."""

    now: float
    """Seconds; for `schedule` and the day's season, since the epoch."""
    observed: Observation
    estimates: Estimates
    settings: Settings
    memory: DeciderMemory
    current: int
    """The size that the pool has or is about to have."""

    @property
    def service(self) -> float:
        """The mean run time in seconds."""
        return self.estimates.service(self.settings)

    @property
    def load(self) -> float:
        """The offered load: the workers that would be just busy."""
        return self.estimates.rates.rate * self.service


class Recommendation(Struct, frozen=True, kw_only=True, gc=False):
    """The answer of one decider at one tick."""

    must: float
    """Below this many workers the goal is in danger: grow now."""
    want: float
    """The size to grow to, if growing."""
    keep: float
    """What the load needs in the long run: shrink no further than its maximum over the hold."""
    peak: float = 0.0
    """What it needs with the backlog: shrink no further than its maximum over the short hold."""
    reason: str = ""

    def choose_size(self, current: int) -> float:
        """The size that it asks of a pool of that size: more if it must, less if it may, else the same."""
        if self.must > current:
            return max(self.want, current)
        return min(current, max(self.keep, self.peak))


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One link of the chain from a wish to a target: the size after it, and what made it so."""

    size: int
    reason: str = ""
    limit: str = ""
    """What it is called in metrics, if it limits."""
    needs: float = 0.0
    """For the first link, the size before rounding."""


def round_up(size: float) -> int:
    """Whole workers, with room for the error of sums."""
    return ceil(size - 1e-9)


def cap_at(wish: Recommendation, most: float) -> Recommendation:
    """The wish with nothing above a number of workers."""
    return replace(
        wish,
        must=min(wish.must, most),
        want=min(wish.want, most),
        keep=min(wish.keep, most),
        peak=min(wish.peak, most),
    )


def raise_to(wish: Recommendation, least: float) -> Recommendation:
    """The wish with nothing below a number of workers."""
    return replace(
        wish,
        must=max(wish.must, least),
        want=max(wish.want, least),
        keep=max(wish.keep, least),
        peak=max(wish.peak, least),
    )


def hold_at(wish: Recommendation, size: int) -> Recommendation:
    """The wish for neither more nor less than a size."""
    return replace(cap_at(wish, size), keep=float(size))


def make_step(wish: Recommendation, current: int, word: str, why: str) -> Step:
    """The step of something that has changed a wish."""
    return Step(size=round_up(wish.choose_size(current)), reason=why, limit=word)


def take_largest(wishes: list[Recommendation]) -> Recommendation:
    """Several wishes as one: the largest counts, and its reason is told."""
    if len(wishes) == 1:
        return wishes[0]
    return Recommendation(
        must=max(wish.must for wish in wishes),
        want=max(wish.want for wish in wishes),
        keep=max(wish.keep for wish in wishes),
        peak=max(wish.peak for wish in wishes),
        reason=max(wishes, key=lambda wish: (wish.must, wish.want)).reason,
    )


def predict_wait(moment: Moment, size: int) -> float:
    """Seconds that a task which comes now will wait, if that many workers serve those before it."""
    return moment.observed.queued * moment.service / max(1, size)
