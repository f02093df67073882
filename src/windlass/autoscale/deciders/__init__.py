"""The built-in deciders by name. Each is a pure function that returns a recommendation and its new memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.autoscale.deciders.forecasts import holt_winters, linear, schedule
from windlass.autoscale.deciders.simple import aimd, due, mmc, pid, target, threshold
from windlass.autoscale.deciders.slo import slo
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation

Decider = Callable[[Moment], tuple[Recommendation, DeciderMemory]]
DECIDERS: Mapping[str, Decider] = {
    "slo": slo,
    "threshold": threshold,
    "aimd": aimd,
    "pid": pid,
    "target": target,
    "mmc": mmc,
    "schedule": schedule,
    "linear": linear,
    "holt_winters": holt_winters,
    "due": due,
}
