"""What a decider sees, and what it may keep from one tick to the next."""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.estimators import Estimates
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.smoothing import Fading


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
