"""Lower a recommendation when more workers would not help, or would do harm.

`errors`: too many attempts fail. `futile`: all workers are busy, tasks take longer than usual, and the last growth did
not raise the throughput, so the bottleneck is elsewhere. `limit`: a signal limits the workers. `stalled`: no task has
finished for a long time. `crashes`: workers keep dying. `breaker`: the circuit breaker of the downstream is open.

While a breaker is open, the pool is idle. Its size is held for a moment, since most outages are short, then it shrinks
to the minimum. A half-open breaker needs a worker that probes. When it closes, the old size is restored at once.
"""

from __future__ import annotations

from math import ceil, inf

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.recommendation import Moment, Recommendation, Step, cap_at, hold_at, make_step, raise_to

SLOWER = 1.3
"""The multiple of the usual run time above which a saturated pool is suspected of futile growth."""
USUAL_MEMORY = 1 / 1800
THROUGHPUT_MEMORY = 0.1
STEP = 1.5
"""The factor by which a suspected pool may grow between two tests."""
GAIN = 0.4
"""The share of a growth that must show in the throughput."""
SETTLING = 15.0
SHIFT = 3
"""The factor by which it may grow before the first test, so that a tripled run time is served at once."""
RETEST, RETEST_MOST, RETEST_STEP = 60.0, 600.0, 1.25
MINUTE = 60.0
DEATHS = 3
"""Deaths in a minute above which workers are in a crash loop."""
STALLED, STALLED_LEAST = 3.0, 10.0
"""A busy pool is stalled if no task finishes for this many run times, each counted as at least 10 s."""
SEVERAL = 2
"""The least busy workers of a stall. A single one may just have a long task."""
HELD = 30.0
"""Seconds for which the size is held after a breaker opens, and the old size is kept after it closes."""


class GrowthTest(Struct, frozen=True, kw_only=True, gc=False):
    """Whether growth helps: the last tests of size and throughput."""

    usual: float = 0.0
    """The usual run time."""
    throughput: float = 0.0
    size: int = 0
    """The size at the last test and its throughput; 0 before the first test."""
    reached: float = 0.0
    onset: float = 0.0
    """When the suspicion began, and the size at that time."""
    found: int = 0
    since: float | None = None
    """When the current size was reached; None without a suspicion."""
    watched: int = 0
    cap: int | None = None
    until: float = 0.0
    wait: float = RETEST
    step: float = STEP


def apply_load_vetoes(
    moment: Moment, recommendation: Recommendation, growth: GrowthTest
) -> tuple[Recommendation, list[Step], GrowthTest]:
    """Apply the vetoes for errors, futile growth and limits. Return their steps and the new test state."""
    steps: list[Step] = []
    if moment.estimates.failing:
        recommendation = hold_at(recommendation, moment.current)
        why = "veto: too many attempts fail, so the size is held"
        steps.append(make_step(recommendation, moment.current, "veto:errors", why))
    growth = watch_throughput(moment, growth)
    most = compute_cap(moment, growth)
    if max(recommendation.want, recommendation.keep) > most:
        recommendation = cap_at(recommendation, most)
        why = f"veto: all busy but slower than usual, so at most {most} until growth helps"
        steps.append(make_step(recommendation, moment.current, "veto:futile", why))
    allowed = moment.observed.limit
    if allowed is not None and max(recommendation.want, recommendation.keep) > allowed:
        recommendation = cap_at(recommendation, allowed)
        steps.append(make_step(recommendation, moment.current, "veto:limit", f"veto: the downstream allows {allowed}"))
    return recommendation, steps, growth


def compute_cap(moment: Moment, growth: GrowthTest) -> float:
    """Return the most workers until growth is known to help."""
    if growth.since is None:
        return inf
    load = ceil(STEP * moment.estimates.rates.rate * growth.usual)
    if growth.cap is not None:
        return max(growth.cap, load, 1)
    # The run time has not settled yet. Allow one growth, or a real change of the run time would be missed.
    if moment.now < growth.onset + moment.observed.start_delay + SETTLING:
        return min(max(load, SHIFT * growth.found), ceil(STEP * max(growth.watched, moment.load)))
    return max(load, ceil(growth.step * growth.size) if growth.size == growth.watched else growth.watched)


def watch_throughput(moment: Moment, growth: GrowthTest) -> GrowthTest:
    """Learn the usual run time while the pool is healthy, and test each growth while it is not."""
    observed, service = moment.observed, moment.service
    rate = growth.throughput + (observed.completions - growth.throughput) * THROUGHPUT_MEMORY
    usual = growth.usual + (min(service, 2 * growth.usual) - growth.usual) * USUAL_MEMORY if growth.usual else service
    if moment.estimates.seen < 20:
        return GrowthTest()
    slow = service > SLOWER * usual
    # If the arrivals would fill the pool at the usual run time too, the pool is just busy.
    enough = moment.estimates.rates.rate * usual < observed.alive
    saturated = observed.queued > 0 and observed.running >= 0.95 * observed.ready and enough
    if not slow or (growth.since is None and not saturated):
        return GrowthTest(usual=usual, throughput=rate)
    if growth.since is None:
        growth = replace(growth, onset=moment.now, found=max(1, observed.alive))
    if growth.since is None or observed.alive != growth.watched:
        # Every resize restarts the clock, because only a settled size has a throughput of its own.
        return replace(growth, usual=usual, throughput=rate, since=moment.now, watched=observed.alive)
    return evaluate_growth(moment, replace(growth, usual=usual, throughput=rate), service)


def evaluate_growth(moment: Moment, growth: GrowthTest, service: float) -> GrowthTest:
    """Compare the throughput of a settled size with that of the previous size."""
    since = growth.since if growth.since is not None else moment.now
    if moment.now < since + moment.observed.start_delay + service + max(15.0, 2 * service):
        return growth
    if growth.cap is not None and moment.now < growth.until:
        return growth
    size, rate = growth.watched, growth.throughput
    if growth.cap is not None and size > growth.cap:
        return replace(growth, until=moment.now + growth.wait)
    if growth.cap is not None:
        # The cap has lasted long enough. Test one more step.
        return replace(
            growth, cap=None, size=size, reached=rate, step=RETEST_STEP, wait=min(RETEST_MOST, 2 * growth.wait)
        )
    if growth.size and size > growth.size and growth.reached > 0:
        added, gained = size / growth.size - 1, rate / growth.reached - 1
        if gained < GAIN * added:
            cap = ceil(growth.size * max(1.0, rate / growth.reached))
            return replace(growth, cap=cap, until=moment.now + growth.wait)
    return replace(growth, size=size, reached=rate)


class Health(Struct, frozen=True, kw_only=True, gc=False):
    """Recent deaths and stalls of the workers."""

    deaths: list[tuple[float, int]] = []
    moved: float | None = None
    """When a task last finished, or a worker was free."""
    service: float = 0.0
    """The run time at that moment. While no task finishes, the measured run time only grows."""
    stalled: bool = False

    @property
    def crashing(self) -> bool:
        """True if workers die so often that replacing them makes no sense."""
        return sum(count for _, count in self.deaths) > DEATHS


def record_health(moment: Moment, health: Health) -> Health:
    """Return the health after one more tick."""
    observed, now = moment.observed, moment.now
    deaths = [(at, count) for at, count in health.deaths if now - MINUTE < at <= now]
    if observed.deaths:
        deaths.append((now, observed.deaths))
    busy = observed.running >= max(SEVERAL, observed.ready) and not observed.completions
    if not busy or health.moved is None:
        return Health(deaths=deaths, moved=now, service=moment.service)
    patience = STALLED * max(health.service, STALLED_LEAST)
    return Health(deaths=deaths, moved=health.moved, service=health.service, stalled=now - health.moved > patience)


def apply_health_vetoes(
    moment: Moment, recommendation: Recommendation, health: Health
) -> tuple[Recommendation, list[Step], Health]:
    """Apply the vetoes for stalls and crash loops. Return their steps and the new health."""
    health, steps = record_health(moment, health), list[Step]()
    if health.stalled:
        recommendation = hold_at(recommendation, moment.current)
        why = f"veto: no task finished for {moment.now - (health.moved or 0.0):.0f} s although all workers are busy"
        steps.append(make_step(recommendation, moment.current, "veto:stalled", why))
    if health.crashing:
        recommendation = cap_at(recommendation, moment.current)
        count = sum(count for _, count in health.deaths)
        steps.append(
            make_step(recommendation, moment.current, "veto:crashes", f"veto: {count} workers died within a minute")
        )
    return recommendation, steps, health


class Outage(Struct, frozen=True, kw_only=True, gc=False):
    """An outage: the breaker is open, or has just closed."""

    since: float | None = None
    closed: float | None = None
    size: int = 0
    """The size at the start of the outage."""


def apply_breaker_veto(
    moment: Moment, recommendation: Recommendation, outage: Outage
) -> tuple[Recommendation, list[Step], Outage]:
    """Apply the state of the circuit breaker. Return its steps and the new outage."""
    state, now, least = moment.observed.breaker, moment.now, moment.settings.min
    if state == "closed":
        return restore_size(moment, recommendation, outage)
    if outage.since is None:
        outage = Outage(since=now, size=max(moment.current, outage.size))
    word = "veto:breaker"
    if state == "half_open":
        recommendation = plain(least + 1)
        return (
            recommendation,
            [make_step(recommendation, moment.current, word, "veto: the breaker is half-open, so one worker probes")],
            outage,
        )
    if now - (outage.since or 0.0) < HELD:
        recommendation = hold_at(recommendation, moment.current)
        return (
            recommendation,
            [make_step(recommendation, moment.current, word, "veto: the breaker is open, so the size is held")],
            outage,
        )
    recommendation = plain(least)
    return (
        recommendation,
        [
            make_step(
                recommendation, moment.current, word, "veto: the breaker is open, so the pool shrinks to the minimum"
            )
        ],
        outage,
    )


def plain(size: int) -> Recommendation:
    """Recommend exactly this size."""
    return Recommendation(must=size, want=size, keep=size, peak=size)


def restore_size(
    moment: Moment, recommendation: Recommendation, outage: Outage
) -> tuple[Recommendation, list[Step], Outage]:
    """Recommend the size from before an outage, until the load is measured again."""
    if outage.since is not None:
        outage = replace(outage, since=None, closed=moment.now)
    if outage.closed is None or moment.now - outage.closed >= HELD:
        return recommendation, [], Outage()
    recommendation = raise_to(recommendation, outage.size)
    reason = f"the breaker closed, so back to {outage.size}"
    return recommendation, [make_step(recommendation, moment.current, "restored", reason)], outage
