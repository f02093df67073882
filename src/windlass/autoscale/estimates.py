"""Estimate the load of a pool: arrival rate, run time, offered load, lateness, and the errors of the own forecasts.

All estimates are small values that are stored between ticks, so any node can decide the next tick.

The arrival rate is measured over a slow window that forgets at once when the rate changes. The window keeps single
seconds for the last minute and blocks of 16 s before that, to stay small. A second far above the rate is a batch, which
shows as backlog; only three of them in a row count as a new rate.

A burst looks like a new rate at first. If bursts end before a worker can start, workers for the whole burst come too
late and stay too long. So a recent rise counts only as far as earlier rises of this queue have lasted.
"""

from __future__ import annotations

from math import exp, sqrt

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings

TICKS = 64
BLOCK = 16
SLOW = 120
"""The least length of the window in seconds."""
ENOUGH = 100
"""The least number of arrivals in the window, if they came within 900 s."""
BLOCKS = (900 - TICKS) // BLOCK
SPANS = (3, 6, 12, 24, 48)
"""Seconds of the latest arrivals that are compared with those before them."""
LEARN = 0.15
"""The weight of one jump in the estimate of how long rises last."""
REACTION = 2.0
"""Seconds from a change of the load to the decision."""
SHORT = (20.0, 50.0)
"""Seconds and completions over which the run time is measured."""
USUAL = 1 - 1 / 300
"""The share of the usual run time that is kept from one second to the next."""
SHORTEST = 0.001
"""The least run time in seconds, since the formulas divide by it."""
TRUSTED = 20.0
"""Completions after which the measured run time replaces the configured one."""
ERROR_MEMORY = 1 / 300
RECALL_LEAST, RECALL_MOST = 0.01, 0.15
RECALL = 1 - 1 / 1800
HISTORY = 112
"""Blocks that make half an hour."""
RAW = 64


class DecayingMean(Struct, frozen=True, kw_only=True, gc=False):
    """An exponentially weighted mean. A value that is one half-life old counts half."""

    value: float | None = None
    at: float = 0.0

    def record(self, now: float, value: float, half_life: float) -> DecayingMean:
        """Return the mean with one more value. Without a half-life the new value replaces it."""
        if self.value is None or half_life <= 0:
            return DecayingMean(value=value, at=now)
        share = 0.5 ** (max(0.0, now - self.at) / half_life)
        return DecayingMean(value=value + (self.value - value) * share, at=now)


class Rates(Struct, frozen=True, kw_only=True, gc=False):
    """The window of arrivals, newest last."""

    ticks: list[float] = []
    blocks: list[float] = []
    excess: list[float] = []
    """The arrivals that were cut off the latest seconds, while they exceed the rate."""
    jump: int = 0
    """1 or -1 in the tick that found a rise or fall of the rate."""

    @property
    def span(self) -> int:
        """The length of the window in seconds."""
        return len(self.ticks) + BLOCK * len(self.blocks)

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        span = self.span
        return (sum(self.ticks) + sum(self.blocks)) / span if span else 0.0

    def last(self, seconds: int) -> float:
        """Return the arrivals of the latest seconds, at most a minute."""
        return sum(self.ticks[-seconds:])

    @property
    def slope(self) -> float:
        """The growth of the rate per second; 0 unless the halves of the window differ by more than two sigma."""
        half = min(len(self.ticks), self.span) // 2
        if half < BLOCK:
            return 0.0
        newer, older = self.last(half), sum(self.ticks[-2 * half : -half])
        return (newer - older) / half**2 if newer - older > 2 * sqrt(newer + older) else 0.0


def record_arrivals(rates: Rates, arrivals: float, patience: float) -> Rates:
    """Return the window with one more tick. Changes shorter than `patience` seconds are ignored."""
    if rates.span:
        rates = damp_jump(rates, arrivals)
    else:
        rates = Rates(ticks=[arrivals])
    return drop_before_change(trim(rates), patience)


def damp_jump(rates: Rates, arrivals: float) -> Rates:
    """Add a tick, cut to what chance explains, unless it is the third in a row that exceeds that."""
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
    """Drop the seconds that are too old."""
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
    """Drop the seconds before a sudden change of the rate."""
    span = rates.span
    count = sum(rates.ticks) + sum(rates.blocks)
    for length in SPANS:
        if length < patience or span < 2 * length or rates.excess:
            continue
        recent = rates.last(length)
        before = (count - recent) / (span - length)
        expected = before * length
        surprise = (recent - expected) / sqrt(max(1.0, expected * (1 + length / (span - length))))
        if abs(surprise) > (4 if length >= 10 else 5):
            return Rates(ticks=rates.ticks[-length:], jump=1 if surprise > 0 else -1)
    return rates


class Jumps(Struct, frozen=True, kw_only=True, gc=False):
    """How long rises of the rate last, and the rise that is being watched."""

    stay: float = 1.0
    """The share of a risen rate that remained in the next reaction time."""
    young: int = 0
    """Ticks for which the latest rise is still watched; 0 without one."""
    before: float = 0.0
    """The rate before the rise."""
    foreseen: float = 0.0
    """The arrivals that were expected for one reaction time, and those that came."""
    came: float = 0.0

    def discount(self, rate: float, correctable: float) -> float:
        """Return the rate to plan for. The less of an error can be corrected in time, the more of a rise counts."""
        if not self.young or rate <= self.before:
            return rate
        share = 1 - (1 - self.stay) * min(1.0, correctable)
        return self.before + share * (rate - self.before)


def record_jumps(jumps: Jumps, before: float, rates: Rates, arrivals: float, ticks: int) -> Jumps:
    """Return the jumps after one more tick. `before` is the rate before it, `ticks` how long a rise is watched."""
    if rates.jump > 0:
        # A second jump continues the first one.
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


class Estimates(Struct, frozen=True, kw_only=True, gc=False):
    """The estimates that are stored between ticks."""

    rates: Rates = Rates()
    raw: list[int] = []
    """Arrivals of the latest minute, including retries and scheduled tasks."""
    busy: float = 0.0
    """Decaying sums of worker-seconds and completions, which give the run time."""
    ended: float = 0.0
    usual_busy: float = 0.0
    """The same sums over some minutes."""
    usual_ended: float = 0.0
    seen: float = 0.0
    """Completions up to a limit: the weight of the measured run time."""
    forecasts: list[float] = []
    """The forecast rates of the last reaction time, oldest first."""
    failed: float = 0.0
    """Decaying sums of errors and completions, over ten seconds or twenty completions."""
    tried: float = 0.0
    late: float = 0.0
    """Decaying counts of starts that were late and of all starts, over half an hour."""
    started: float = 0.0
    history: list[float] = []
    """Arrivals of the last half hour in blocks of 16 s."""
    block: list[float] = []
    warm: float = 0.0
    """The peak rate of the last half hour for which the pool stays ready."""
    jumps: Jumps = Jumps()
    error: float = 0.0
    """The mean square of the arrivals above the forecast in one reaction time."""

    @property
    def failing(self) -> bool:
        """True if over 30 % of recent attempts fail, so that more workers would only cause more failures."""
        return self.tried >= 10 and self.failed > 0.3 * self.tried

    @property
    def late_share(self) -> float:
        """The share of starts in the last half hour that were late."""
        return self.late / max(200.0, self.started)

    @property
    def usual(self) -> float:
        """The mean run time of the last minutes; 0 before enough tasks have completed."""
        return self.usual_busy / self.usual_ended if self.usual_ended > 100 else 0.0

    def service(self, settings: Settings) -> float:
        """Return the mean run time: busy seconds per completion, so that a stall shows before any task ends."""
        trust = min(1.0, self.seen / TRUSTED)
        assumed = settings.service * (1 - trust)
        measured = assumed + trust * self.busy / self.ended if self.ended > 0 else settings.service
        # Before the first tasks end, the time that they have already run is a lower bound.
        begun = self.busy / max(1.0, self.started) if trust < 1 else 0.0
        return max(SHORTEST, measured, begun)


def compute_reaction_time(observed: Observation) -> float:
    """Return the reaction time H: the seconds from a change of the load until a new worker is ready."""
    return observed.start_delay + REACTION


def learn(estimates: Estimates, observed: Observation, settings: Settings) -> Estimates:
    """Return the estimates after one more tick."""
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
    """Update run time and failures. Failing attempts do not count for the run time."""
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
    """Update the last half hour. The later tasks were, the higher the peak for which the pool stays ready."""
    late, started = estimates.late * RECALL + observed.late, estimates.started * RECALL + observed.started
    estimates = replace(estimates, late=late, started=started)
    block = [*estimates.block, float(observed.arrivals - observed.scheduled)]
    if len(block) < BLOCK:
        return replace(estimates, block=block)
    history = [*estimates.history[1 - HISTORY :], sum(block)]
    share = max(RECALL_LEAST, RECALL_MOST * (1 - estimates.late_share / settings.late))
    return replace(estimates, block=[], history=history, warm=find_quantile(history, share) / BLOCK)


def find_quantile(blocks: list[float], share: float) -> float:
    """Return the block size above which only this share of all tasks arrived."""
    left = share * sum(blocks)
    for count in sorted(blocks, reverse=True):
        left -= count
        if left < 0:
            return count
    return 0.0


def compute_offered_load(rate: float, service: float, observed: Observation, reach: float) -> float:
    """Return the offered load R. For long tasks without a queue, count the tasks that will still run after H."""
    if observed.queued or service <= 0:
        return rate * service
    stay = exp(-reach / service)
    return observed.running * stay + rate * service * (1 - stay) if stay > 0.1 else rate * service


def compute_surprise(estimates: Estimates, reach: float) -> float:
    """Return one sigma of the arrivals in one reaction time, from chance or from past forecast errors."""
    expected = estimates.rates.rate * reach
    return sqrt(max(expected, min(estimates.error, expected * expected)))
