"""Deciders that are functions of the app. The controller only reads their answers: no user code runs here.

On a node a worker process calls the function, as it does for signals, and the answer comes with the next observation.
So an answer is about a second old, and counts under the same vetoes, bounds and cooldowns as any other wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from windlass.autoscale.deciders.simple import recommend_size
from windlass.autoscale.load_overrides import Recommendation
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.state import ControllerState
from windlass.situation import PREFIX, PoolSituation

MINUTE = 60.0


def list_app_deciders(settings: Settings) -> Sequence[str]:
    """Return the names of the deciders that are functions of the app, as they stand in the settings."""
    return [name for name in settings.deciders if name.startswith(PREFIX)]


def read_app_decider(name: str, observed: Observation, current: int) -> Recommendation:
    """Return what the app's decider asks for. Without an answer the size stays, so that a fault moves nothing.

    A pool that has nobody cannot be asked at all: while tasks wait it gets one worker.
    """
    answer = observed.decided.get(name)
    if answer is None:
        return recommend_size(max(current, 1 if observed.queued else 0), f"{name} has no answer, so the size stays")
    return recommend_size(answer, f"{name} asks for {answer:g}")


def describe_situation(
    pool: str, now: float, observed: Observation, state: ControllerState, settings: Settings, threads: int, slots: int
) -> PoolSituation:
    """Return a pool as its decider sees it; the controller counts in slots, people in workers."""
    return PoolSituation(
        pool=pool,
        now=now,
        workers=ceil(slots / threads),
        least=settings.floor // threads,
        most=settings.ceiling // threads,
        threads=threads,
        wait=settings.wait,
        queued=observed.queued,
        oldest=observed.oldest,
        running=observed.running,
        arrivals=state.estimates.rates.rate,
        service=state.estimates.service(settings),
        due=observed.due_within(MINUTE),
    )
