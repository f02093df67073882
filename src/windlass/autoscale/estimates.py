"""Smoothing of any signal: a fading mean with a half-life, and a sliding window. Small values that can be stored.

A signal that has not been heard of for too long is stale, and whoever reads it decides what that means.
"""

from __future__ import annotations

from math import exp, sqrt

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings


class Fading(Struct, frozen=True, kw_only=True, gc=False):
    """An exponentially weighted mean: what is one half-life old counts half."""

    value: float | None = None
    at: float = 0.0

    def record(self, now: float, value: float, half_life: float) -> Fading:
        """The mean after one more value; without a half-life, that value."""
        if self.value is None or half_life <= 0:
            return Fading(value=value, at=now)
        share = 0.5 ** (max(0.0, now - self.at) / half_life)
        return Fading(value=value + (self.value - value) * share, at=now)


TICKS = 64
BLOCK = 16
SLOW = 120
"""Seconds that the window spans at least."""
ENOUGH = 100
"""Arrivals that it holds, if they come within 900 s."""
BLOCKS = (900 - TICKS) // BLOCK
SPANS = (3, 6, 12, 24, 48)
"""The lengths at which the latest arrivals are compared with those before."""


class Rates(Struct, frozen=True, kw_only=True, gc=False):
    """The window, newest last."""

    ticks: list[float] = []
    blocks: list[float] = []
    excess: list[float] = []
    """What was cut off the latest ticks, while they stand above the rest."""
    jump: int = 0
    """1 or -1 in the tick in which a change was found."""

    @property
    def span(self) -> int:
        """Seconds since the last change, as far as the window remembers."""
        return len(self.ticks) + BLOCK * len(self.blocks)

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        span = self.span
        return (sum(self.ticks) + sum(self.blocks)) / span if span else 0.0

    def last(self, seconds: int) -> float:
        """Arrivals in the latest seconds, at most a minute."""
        return sum(self.ticks[-seconds:])

    @property
    def slope(self) -> float:
        """By how much the rate grows in a second, if it surely does: the halves differ by more than two sigma."""
        half = min(len(self.ticks), self.span) // 2
        if half < BLOCK:
            return 0.0
        newer, older = self.last(half), sum(self.ticks[-2 * half : -half])
        return (newer - older) / half**2 if newer - older > 2 * sqrt(newer + older) else 0.0


def record_arrivals(rates: Rates, arrivals: float, patience: float) -> Rates:
    """The window after one more tick. Changes shorter than `patience` seconds are not looked for."""
    if rates.span:
        rates = damp_jump(rates, arrivals)
    else:
        rates = Rates(ticks=[arrivals])
    return drop_before_change(trim(rates), patience)


def damp_jump(rates: Rates, arrivals: float) -> Rates:
    """One tick more, cut to what chance explains unless it is the third in a row that exceeds it."""
    rate = rates.rate
    most = rate + 4 * sqrt(rate + 1) + 3
    if arrivals <= most:
        return Rates(ticks=[*rates.ticks, arrivals], blocks=rates.blocks)
    excess = [*rates.excess, arrivals - most]
    if len(excess) < 3:
        return Rates(ticks=[*rates.ticks, most], blocks=rates.blocks, excess=excess)
    back = [tick + more for tick, more in zip(rates.ticks[-2:], excess[:2], strict=False)]
    return Rates(ticks=[*rates.ticks[:-2], *back, arrivals], blocks=rates.blocks)


def trim(rates: Rates) -> Rates:
    """The window without what is too old to count."""
    ticks, blocks = rates.ticks, rates.blocks
    if len(ticks) >= TICKS + BLOCK:
        ticks, blocks = ticks[BLOCK:], [*blocks, sum(ticks[:BLOCK])]
    count = sum(ticks) + sum(blocks)
    drop = 0
    while drop < len(blocks) and (
        len(blocks) - drop > BLOCKS
        or (len(ticks) + BLOCK * (len(blocks) - drop - 1) >= SLOW and count - blocks[drop] >= ENOUGH)
    ):
        count -= blocks[drop]
        drop += 1
    return Rates(ticks=ticks, blocks=blocks[drop:], excess=rates.excess)


def drop_before_change(rates: Rates, patience: float) -> Rates:
    """The window without what an abrupt change has made irrelevant."""
    span = rates.span
    count = sum(rates.ticks) + sum(rates.blocks)
    for length in SPANS:
        if length < patience or span < 2 * length or rates.excess:
            continue
        lately = rates.last(length)
        before = (count - lately) / (span - length)
        expected = before * length
        surprise = (lately - expected) / sqrt(max(1.0, expected * (1 + length / (span - length))))
        if abs(surprise) > (4 if length >= 10 else 5):
            return Rates(ticks=rates.ticks[-length:], jump=1 if surprise > 0 else -1)
    return rates


LEARN = 0.15
"""How much one jump teaches."""


class Jumps(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about jumps, and the one that is being watched."""

    stay: float = 1.0
    """The share of a risen rate that was still there in the next reaction time."""
    young: int = 0
    """For how many more ticks the latest rise is watched; 0 when none is."""
    before: float = 0.0
    """The rate before it."""
    foreseen: float = 0.0
    """The arrivals that it promised for one reaction time, and those that came."""
    came: float = 0.0

    def discount(self, rate: float, mendable: float) -> float:
        """The rate to plan for. The more of an error could not be mended in time, the more of a rise counts."""
        if not self.young or rate <= self.before:
            return rate
        share = 1 - (1 - self.stay) * min(1.0, mendable)
        return self.before + share * (rate - self.before)


def record_jumps(jumps: Jumps, before: float, rates: Rates, arrivals: float, ticks: int) -> Jumps:
    """The jumps after one more tick, of a window that had the rate `before`; a rise is watched for so many ticks."""
    if rates.jump > 0:
        # A second jump goes on from where the first one began.
        start = jumps.before if jumps.young else before
        return replace(
            jumps, young=ticks, before=min(start, rates.rate), foreseen=rates.rate * ticks, came=0.0
        )  # fmt: skip
    if not jumps.young:
        return jumps
    young = 1 if rates.jump < 0 else jumps.young
    came = jumps.came + arrivals
    stay = jumps.stay
    if young == 1 and jumps.foreseen > 0:
        stay += LEARN * (min(1.0, came / jumps.foreseen) - stay)
    return replace(jumps, young=young - 1, came=came, stay=stay)


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
