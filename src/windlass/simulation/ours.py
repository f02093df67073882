"""Windlass's own controller as a policy: the very code that sizes real pools, in simulated time."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.autoscale.controller import tick
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.state import State
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy, Start


class Controller:
    """One controller at work. `said` is its sentence for the ledger about the latest tick."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = State()
        self.said = ""

    def __call__(self, now: int, seen: Observation, /) -> int:
        before = self.state.target if self.state.target is not None else seen.alive
        decision = tick(float(now), seen, self.state, self.settings)
        self.state = decision.state
        if decision.target != before:
            self.said = decision.sentence(before)
        return decision.target


def windlass(*deciders: str) -> Start:
    """The controller with these deciders and otherwise only what a user says: goal and bounds."""

    def start(load: Load) -> tuple[int, Policy]:
        settings = Settings(wait=load.wait, floor=load.floor, ceiling=load.ceiling, deciders=deciders)
        return load.floor, Controller(settings)

    return start


OURS: Mapping[str, Mapping[str, Start]] = {
    "slo": {"": windlass("slo")},
    "own-threshold": {"": windlass("threshold")},
    "own-aimd": {"": windlass("aimd")},
    "own-pid": {"": windlass("pid")},
    "own-target": {"": windlass("target")},
    "own-mmc": {"": windlass("mmc")},
    "own-linear": {"": windlass("linear", "slo")},
}
