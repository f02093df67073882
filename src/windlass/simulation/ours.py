"""Windlass's own controller as a policy: the very code that sizes real pools, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from windlass.autoscale.controller import ControllerState, describe_situation, tick
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings
from windlass.custom_decider import PREFIX, PoolSituation, check_answer
from windlass.simulation.load import Load
from windlass.simulation.policy import Policy, Start

OwnDecider: TypeAlias = Callable[[PoolSituation], float]
OWN = f"{PREFIX}simulated"


class Controller:
    """One controller at work. `said` is its sentence for the ledger about the latest tick."""

    def __init__(self, settings: Settings, own: OwnDecider | None = None) -> None:
        self.settings = settings
        self._own = own
        self.state = ControllerState()
        self.said = ""

    def __call__(self, now: int, seen: Observation, /) -> int:
        before = self.state.target if self.state.target is not None else seen.alive
        if self._own is not None:
            shown = describe_situation("simulated", float(now), seen, self.state, self.settings, 1, before)
            seen = replace(seen, decided={OWN: check_answer(self._own(shown))})
        decision = tick(float(now), seen, self.state, self.settings)
        self.state = decision.state
        if decision.target != before:
            self.said = decision.summarize(before)
        return decision.target


def windlass(*deciders: str) -> Start:
    """The controller with these deciders and otherwise only what a user says: goal and bounds."""

    def start(load: Load) -> tuple[int, Policy]:
        settings = Settings(wait=load.wait, floor=load.floor, ceiling=load.ceiling, deciders=deciders)
        return load.floor, Controller(settings)

    return start


def own_controller(decide: OwnDecider) -> Start:
    """The controller with a function of the app as its only decider. What it raises ends the simulation."""

    def start(load: Load) -> tuple[int, Policy]:
        settings = Settings(wait=load.wait, floor=load.floor, ceiling=load.ceiling, deciders=(OWN,))
        return load.floor, Controller(settings, decide)

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
