"""Whether the workers themselves get anywhere: deaths in a row, and work that never ends.

Neither is mended by more workers. A pool whose workers keep dying does not grow, and one in which nothing has ended for
far longer than tasks take is held as it is; both raise an alert.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.load_overrides import Step, Recommendation, hold_at, make_step, cap_at
from windlass.autoscale.moment import Moment

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


def apply_health_vetoes(moment: Moment, wish: Recommendation, health: Health) -> tuple[Recommendation, list[Step], Health]:
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
