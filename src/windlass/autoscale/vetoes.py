"""When more workers would do harm or no good. A veto only ever lowers a wish.

Failing: most attempts fail, so growth waits until they no longer do. Futile: everybody is busy, tasks take longer than
ever, and the last growth did not raise the throughput, so the bottleneck is elsewhere. Limit: a downstream says itself
how many workers it can bear.
"""

from __future__ import annotations

from math import ceil, inf

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.recommendation import Moment, Recommendation, Step, cap_at, hold_at, make_step, raise_to

SLOWER = 1.3
"""Run times above this multiple of the usual make a saturated pool suspicious."""
USUAL_MEMORY = 1 / 1800
THROUGHPUT_MEMORY = 0.1
STEP = 1.5
"""By how much a suspicious pool may grow between two tests."""
GAIN = 0.4
"""The share of a growth that must be found again in the throughput."""
SETTLING = 15.0
SHIFT = 3
"""By how much it may grow before the first test: a run time that has tripled is still served at once."""
RETEST, RETEST_MOST, RETEST_STEP = 60.0, 600.0, 1.25


class Futility(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about whether growth helps."""

    usual: float = 0.0
    """The run time of calm days."""
    throughput: float = 0.0
    size: int = 0
    """The size at the last test and the throughput that it had; 0 before the first."""
    reached: float = 0.0
    onset: float = 0.0
    """When the suspicion arose, and the size that it found."""
    found: int = 0
    since: float | None = None
    """When the present size was reached; None without a suspicion."""
    watched: int = 0
    cap: int | None = None
    until: float = 0.0
    wait: float = RETEST
    step: float = STEP


def apply_load_vetoes(
    moment: Moment, wish: Recommendation, futility: Futility
) -> tuple[Recommendation, list[Step], Futility]:
    """The wish after all vetoes, their steps, and what is now known about futility."""
    steps: list[Step] = []
    if moment.estimates.failing:
        wish = hold_at(wish, moment.current)
        why = "veto: most attempts fail, so no growth, and no shrinking by their short run times"
        steps.append(make_step(wish, moment.current, "veto:errors", why))
    futility = watch_throughput(moment, futility)
    most = compute_cap(moment, futility)
    if max(wish.want, wish.keep) > most:
        wish = cap_at(wish, most)
        why = f"veto: saturated and slower than usual, so at most {most} until growth is seen to help"
        steps.append(make_step(wish, moment.current, "veto:futile", why))
    bears = moment.observed.limit
    if bears is not None and max(wish.want, wish.keep) > bears:
        wish = cap_at(wish, bears)
        steps.append(make_step(wish, moment.current, "veto:limit", f"veto: the downstream bears {bears}"))
    return wish, steps, futility


def compute_cap(moment: Moment, futility: Futility) -> float:
    """The most workers that futility allows."""
    if futility.since is None:
        return inf
    load = ceil(STEP * moment.estimates.rates.rate * futility.usual)
    if futility.cap is not None:
        return max(futility.cap, load, 1)
    # The run time is not yet settled: one growth to what it now seems to need must be free, or a true change is missed.
    if moment.now < futility.onset + moment.observed.start_delay + SETTLING:
        return min(max(load, SHIFT * futility.found), ceil(STEP * max(futility.watched, moment.load)))
    return max(load, ceil(futility.step * futility.size) if futility.size == futility.watched else futility.watched)


def watch_throughput(moment: Moment, futility: Futility) -> Futility:
    """Learn the usual run time while all is well, and test each growth while it is not."""
    observed, service = moment.observed, moment.service
    rate = futility.throughput + (observed.completions - futility.throughput) * THROUGHPUT_MEMORY
    usual = (
        futility.usual + (min(service, 2 * futility.usual) - futility.usual) * USUAL_MEMORY
        if futility.usual
        else service
    )
    if moment.estimates.seen < 20:
        return Futility()
    slow = service > SLOWER * usual
    # Arrivals that would fill the pool at the usual run time too are a load, not a sickness.
    enough = moment.estimates.rates.rate * usual < observed.alive
    saturated = observed.queued > 0 and observed.running >= 0.95 * observed.ready and enough
    if not slow or (futility.since is None and not saturated):
        return Futility(usual=usual, throughput=rate)
    if futility.since is None:
        futility = replace(futility, onset=moment.now, found=max(1, observed.alive))
    if futility.since is None or observed.alive != futility.watched:
        # Every change of size starts the clock anew: only a settled size has a throughput of its own.
        return replace(futility, usual=usual, throughput=rate, since=moment.now, watched=observed.alive)
    return evaluate_growth(moment, replace(futility, usual=usual, throughput=rate), service)


def evaluate_growth(moment: Moment, futility: Futility, service: float) -> Futility:
    """Compare the throughput of a settled size with that of the size before."""
    since = futility.since if futility.since is not None else moment.now
    if moment.now < since + moment.observed.start_delay + service + max(15.0, 2 * service):
        return futility
    if futility.cap is not None and moment.now < futility.until:
        return futility
    size, rate = futility.watched, futility.throughput
    if futility.cap is not None and size > futility.cap:
        return replace(futility, until=moment.now + futility.wait)
    if futility.cap is not None:
        # The cap has been kept long enough: one more step, to see whether it helps now.
        return replace(
            futility, cap=None, size=size, reached=rate, step=RETEST_STEP, wait=min(RETEST_MOST, 2 * futility.wait)
        )
    if futility.size and size > futility.size and futility.reached > 0:
        growth, gain = size / futility.size - 1, rate / futility.reached - 1
        if gain < GAIN * growth:
            cap = ceil(futility.size * max(1.0, rate / futility.reached))
            return replace(futility, cap=cap, until=moment.now + futility.wait)
    return replace(futility, size=size, reached=rate)


MINUTE = 60.0
DEATHS = 3
"""More than so many in a minute are a crash loop."""
STALLED, STALLED_LEAST = 3.0, 10.0
"""Run times without an end after which a busy pool is stalled, and the run time that is taken at least."""
SEVERAL = 2
"""One busy worker alone may simply have a long task."""


class Health(Struct, frozen=True, kw_only=True, gc=False):
    """What was lately seen of the workers."""

    deaths: list[tuple[float, int]] = []
    moved: float | None = None
    """When a task last ended, or somebody was free."""
    service: float = 0.0
    """The run time then: while nothing ends, the measured one only grows."""
    stalled: bool = False

    @property
    def crashing(self) -> bool:
        """Whether workers die faster than a replacement makes sense."""
        return sum(count for _, count in self.deaths) > DEATHS


def record_health(moment: Moment, health: Health) -> Health:
    """The health after one more tick."""
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
    moment: Moment, wish: Recommendation, health: Health
) -> tuple[Recommendation, list[Step], Health]:
    """The wish as the workers' health allows it."""
    health, steps = record_health(moment, health), list[Step]()
    if health.stalled:
        wish = hold_at(wish, moment.current)
        why = f"veto: nothing has ended for {moment.now - (health.moved or 0.0):.0f} s though all are busy"
        steps.append(make_step(wish, moment.current, "veto:stalled", why))
    if health.crashing:
        wish = cap_at(wish, moment.current)
        count = sum(count for _, count in health.deaths)
        steps.append(make_step(wish, moment.current, "veto:crashes", f"veto: {count} workers died within a minute"))
    return wish, steps, health


HELD = 30.0
"""Seconds for which an open breaker leaves the size as it is, and a closed one keeps asking for the old size."""


class Outage(Struct, frozen=True, kw_only=True, gc=False):
    """A breaker that is open, or has just closed."""

    since: float | None = None
    closed: float | None = None
    size: int = 0
    """The size that the outage found."""


def apply_breaker_veto(
    moment: Moment, wish: Recommendation, outage: Outage
) -> tuple[Recommendation, list[Step], Outage]:
    """The wish under the breaker's state, what that says, and what to remember."""
    state, now, floor = moment.observed.breaker, moment.now, moment.settings.floor
    if state == "closed":
        return restore_size(moment, wish, outage)
    if outage.since is None:
        outage = Outage(since=now, size=max(moment.current, outage.size))
    word = "veto:breaker"
    if state == "half_open":
        wish = plain(floor + 1)
        return (
            wish,
            [make_step(wish, moment.current, word, "veto: the breaker is half open, one to probe with")],
            outage,
        )
    if now - (outage.since or 0.0) < HELD:
        wish = hold_at(wish, moment.current)
        return wish, [make_step(wish, moment.current, word, "veto: the breaker is open, the size is held")], outage
    wish = plain(floor)
    return wish, [make_step(wish, moment.current, word, "veto: the breaker is open, down to the floor")], outage


def plain(size: int) -> Recommendation:
    """A wish for exactly that many."""
    return Recommendation(must=size, want=size, keep=size, peak=size)


def restore_size(moment: Moment, wish: Recommendation, outage: Outage) -> tuple[Recommendation, list[Step], Outage]:
    """The wish after an outage: what it found, for long enough that the load can speak for itself."""
    if outage.since is not None:
        outage = replace(outage, since=None, closed=moment.now)
    if outage.closed is None or moment.now - outage.closed >= HELD:
        return wish, [], Outage()
    wish = raise_to(wish, outage.size)
    said = f"the breaker has closed, back to {outage.size}"
    return wish, [make_step(wish, moment.current, "restored", said)], outage
