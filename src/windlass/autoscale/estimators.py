"""What the default law knows of its load: rate, run time, offered load, and how wrong its own forecasts were.

All of it is one small value that can be stored, so that any node may decide the next tick.
"""

from __future__ import annotations

from math import exp, sqrt

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.jumps import Jumps, record_jumps
from windlass.autoscale.observations import Observation
from windlass.autoscale.rates import BLOCK, Rates, record_arrivals
from windlass.autoscale.settings import Settings

REACTION = 2.0
"""Ticks between a change and the order that answers it."""
SHORT = (20.0, 50.0)
"""Seconds and completions over which the run time is measured."""
USUAL = 1 - 1 / 300
"""How much of the usual run time is kept from one second to the next."""
SHORTEST = 0.001
"""Seconds that a task is taken to run at least: the formulae divide by it."""
TRUSTED = 20.0
"""Completions below which the measured run time is mixed with the one assumed before."""
ERROR_MEMORY = 1 / 300
RECALL_LEAST, RECALL_MOST = 0.01, 0.15
RECALL = 1 - 1 / 1800
HISTORY = 112
"""Blocks that make half an hour."""
RAW = 64


class Estimates(Struct, frozen=True, kw_only=True, gc=False):
    """What is carried from tick to tick."""

    rates: Rates = Rates()
    raw: list[int] = []
    """Arrivals of the latest minute, retries and scheduled ones among them."""
    busy: float = 0.0
    """Worker-seconds and completions that make the run time, fading."""
    ended: float = 0.0
    usual_busy: float = 0.0
    """The same over some minutes."""
    usual_ended: float = 0.0
    seen: float = 0.0
    """Completions ever, up to a bound: the weight of the measured against the assumed."""
    forecasts: list[float] = []
    """The rates that were forecast during the last reaction time, oldest first."""
    failed: float = 0.0
    """Errors and completions of the last ten seconds or twenty completions, fading."""
    tried: float = 0.0
    late: float = 0.0
    """Late starts and all starts of the last half hour, fading."""
    started: float = 0.0
    history: list[float] = []
    """Arrivals in blocks of 16 s, of the last half hour."""
    block: list[float] = []
    warm: float = 0.0
    """The rate that the last half hour makes worth keeping ready for."""
    jumps: Jumps = Jumps()
    error: float = 0.0
    """The mean square of arrivals beyond the forecast, over one reaction time."""

    @property
    def failing(self) -> bool:
        """Whether so many attempts fail that more workers would only make more failures."""
        return self.tried >= 10 and self.failed > 0.3 * self.tried

    @property
    def late_share(self) -> float:
        """The share of late starts in the last half hour."""
        return self.late / max(200.0, self.started)

    @property
    def usual(self) -> float:
        """The mean run time of the last minutes; 0 before it is known well."""
        return self.usual_busy / self.usual_ended if self.usual_ended > 100 else 0.0

    def service(self, settings: Settings) -> float:
        """The mean run time: busy seconds per completion, so that a stall shows before any task ends."""
        trust = min(1.0, self.seen / TRUSTED)
        assumed = settings.service * (1 - trust)
        measured = assumed + trust * self.busy / self.ended if self.ended > 0 else settings.service
        # Before the first tasks end, what they have already run is all that is known, and a lower bound.
        begun = self.busy / max(1.0, self.started) if trust < 1 else 0.0
        return max(SHORTEST, measured, begun)


def compute_reaction_time(observed: Observation) -> float:
    """The reaction time H: from a change to the worker that serves it."""
    return observed.start_delay + REACTION


def learn(estimates: Estimates, observed: Observation, settings: Settings) -> Estimates:
    """The estimates after one more tick."""
    estimates = record_history(record_attempts(estimates, observed), observed, settings)
    reach = compute_reaction_time(observed)
    ticks = int(reach)
    arrivals = observed.arrivals - observed.scheduled
    rates = record_arrivals(estimates.rates, arrivals, 0.8 * (settings.wait - reach))
    error = estimates.error
    if len(estimates.forecasts) >= ticks:
        missed = max(0.0, rates.last(ticks) - estimates.forecasts[0] * ticks)
        error += (missed * missed - error) * ERROR_MEMORY
    return replace(
        estimates,
        rates=rates,
        jumps=record_jumps(estimates.jumps, estimates.rates.rate, rates, arrivals, ticks),
        raw=[*estimates.raw[1 - RAW :], observed.arrivals + observed.retried],
        forecasts=[*estimates.forecasts, rates.rate][-ticks:],
        error=error,
    )


def record_attempts(estimates: Estimates, observed: Observation) -> Estimates:
    """Run time and failures after one more tick. Failing attempts teach nothing about the run time."""
    fade = 1 - min(0.1, observed.completions / 20)
    failed, tried = estimates.failed * fade + observed.errors, estimates.tried * fade + observed.completions
    estimates = replace(estimates, failed=failed, tried=tried)
    if failed > 0.1 * tried > 1 or not (observed.busy or observed.completions):
        return estimates
    keep = 1 - min(1 / SHORT[0], observed.completions / SHORT[1])
    return replace(
        estimates,
        usual_busy=estimates.usual_busy * USUAL + observed.busy,
        usual_ended=estimates.usual_ended * USUAL + observed.completions,
        busy=estimates.busy * keep + observed.busy,
        ended=estimates.ended * keep + observed.completions,
        seen=min(TRUSTED, estimates.seen + observed.completions),
    )


def record_history(estimates: Estimates, observed: Observation, settings: Settings) -> Estimates:
    """What the last half hour saw, after one more tick. The later tasks were, the higher a peak is kept ready for."""
    late, started = estimates.late * RECALL + observed.late, estimates.started * RECALL + observed.started
    estimates = replace(estimates, late=late, started=started)
    block = [*estimates.block, float(observed.arrivals - observed.scheduled)]
    if len(block) < BLOCK:
        return replace(estimates, block=block)
    history = [*estimates.history[1 - HISTORY :], sum(block)]
    share = max(RECALL_LEAST, RECALL_MOST * (1 - estimates.late_share / settings.late))
    return replace(estimates, block=[], history=history, warm=find_quantile(history, share) / BLOCK)


def find_quantile(blocks: list[float], share: float) -> float:
    """The block size above which only that share of all tasks arrived."""
    left = share * sum(blocks)
    for count in sorted(blocks, reverse=True):
        left -= count
        if left < 0:
            return count
    return 0.0


def compute_offered_load(rate: float, service: float, observed: Observation, reach: float) -> float:
    """The offered load R; of long tasks without a queue, what of the present will still run after the reaction time."""
    if observed.queued or service <= 0:
        return rate * service
    stay = exp(-reach / service)
    return observed.running * stay + rate * service * (1 - stay) if stay > 0.1 else rate * service


def compute_surprise(estimates: Estimates, reach: float) -> float:
    """One sigma of the arrivals in one reaction time: what chance explains, or what past forecasts missed."""
    expected = estimates.rates.rate * reach
    return sqrt(max(expected, min(estimates.error, expected * expected)))
