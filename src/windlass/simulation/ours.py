"""Windlass's own controller as a policy: the very code that sizes real pools, in simulated time."""

from __future__ import annotations

from windlass.autoscale.controller import State, tick
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.simulation.load import Load
from windlass.simulation.rivals import Start
from windlass.simulation.score import Policy


def windlass(*deciders: str) -> Start:
    """The controller with these deciders and otherwise only what a user says: goal and bounds."""

    def start(load: Load) -> tuple[int, Policy]:
        settings = Settings(wait=load.wait, floor=load.floor, ceiling=load.ceiling, deciders=deciders)
        state = State()

        def decide(now: int, seen: Observation) -> int:
            nonlocal state
            decision = tick(float(now), seen, state, settings)
            state = decision.state
            return decision.target

        return load.floor, decide

    return start


OURS: dict[str, dict[str, Start]] = {
    "slo": {"": windlass("slo")},
    "own threshold": {"": windlass("threshold")},
    "own aimd": {"": windlass("aimd")},
    "own pid": {"": windlass("pid")},
    "own target": {"": windlass("target")},
    "own mmc": {"": windlass("mmc")},
    "own linear": {"": windlass("linear", "slo")},
}
