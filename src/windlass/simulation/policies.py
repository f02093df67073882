"""The policies that a simulation can play: Windlass's deciders, a decider of the app, and two limits.

The deciders run in the controller that sizes real pools. `hindsight` and `clairvoyant` know every task in advance: they
show how much a better policy could gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil
from typing import TypeAlias

from msgspec.structs import replace

from windlass.autoscale.controller import ControllerState, describe_situation, tick
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings
from windlass.custom_decider import PREFIX, PoolSituation, check_answer
from windlass.simulation.bound import Bound, compute_bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.run import Policy, SimulationResult, Start, run

AppDecider: TypeAlias = Callable[[PoolSituation], float]
APP_DECIDER = f"{PREFIX}simulated"
HINDSIGHT_SIZES = tuple(range(1, 12)) + tuple(range(12, 30, 2)) + tuple(range(30, 201, 10))
PATIENCE = 0.7
"""The share of the goal that the clairvoyant plans to use: the bound is fluid, but tasks and workers are whole."""
SMOOTH, SPARE = 120, 1.1
"""The clairvoyant shrinks if the next 120 s need fewer workers and the step is larger than a tenth."""


class SimulatedController:
    """Windlass's controller as a policy. `explanation` is its ledger text for the latest resize."""

    def __init__(self, settings: Settings, app_decider: AppDecider | None = None) -> None:
        self.settings = settings
        self._app_decider = app_decider
        self.state = ControllerState()
        self.explanation = ""

    def __call__(self, now: int, seen: Observation, /) -> int:
        before = self.state.target if self.state.target is not None else seen.alive
        if self._app_decider is not None:
            situation = describe_situation("simulated", float(now), seen, self.state, self.settings, 1, before)
            seen = replace(seen, decided={APP_DECIDER: check_answer(self._app_decider(situation))})
        decision = tick(float(now), seen, self.state, self.settings)
        self.state = decision.state
        if decision.target != before:
            self.explanation = decision.summarize(before)
        return decision.target


def use_deciders(*deciders: str, app_decider: AppDecider | None = None) -> Start:
    """Return a policy that runs the controller with these deciders, and with the load's goal and bounds."""

    def start(load: Load) -> tuple[int, Policy]:
        settings = Settings(wait=load.wait, min=load.min, max=load.max, deciders=deciders)
        return load.min, SimulatedController(settings, app_decider)

    return start


def clamp_size(load: Load, size: float) -> int:
    """Round a size up to whole workers, within the load's bounds. Allow for rounding errors."""
    return max(load.min, min(load.max, ceil(size - 1e-9)))


def static(size: float, load: Load) -> tuple[int, Policy]:
    """Keep a fixed size."""
    fixed = clamp_size(load, size)
    return fixed, lambda _now, _seen, /: fixed


def clairvoyant(load: Load) -> tuple[int, Policy]:
    """Follow the bound in whole workers, and order each worker one start delay before it is needed.

    It knows when tasks arrive and how long they run, but not which of them fail or which workers die. If tasks wait too
    long because of that, it adds enough workers to clear them within the goal.
    """
    needed = compute_bound(load, PATIENCE).list_workers()
    ahead = ceil(load.delay) + 1
    size = clamp_size(load, max(needed[: ahead + SMOOTH], default=load.min))

    def decide(now: int, seen: Observation, /) -> int:
        nonlocal size
        behind = seen.queued * load.mean / load.wait if seen.oldest > PATIENCE * load.wait else 0.0
        soon = max(needed[now : now + ahead], default=0.0) + behind
        later = max(soon, max(needed[now : now + ahead + SMOOTH], default=0.0))
        if soon > size or clamp_size(load, later) * SPARE < size:
            size = clamp_size(load, later)
        return size

    return size, decide


POLICIES: Mapping[str, Start] = {
    "slo": use_deciders("slo"),
    "threshold": use_deciders("threshold"),
    "aimd": use_deciders("aimd"),
    "pid": use_deciders("pid"),
    "target": use_deciders("target"),
    "mmc": use_deciders("mmc"),
    "linear": use_deciders("linear", "slo"),
    "clairvoyant": clairvoyant,
}
HINDSIGHT = "hindsight"
NAMES = (*POLICIES, HINDSIGHT)


def find_policies(names: Iterable[str], known: Iterable[str] = NAMES) -> list[str]:
    """Return the names of known policies, each once. `all` means all of them; case, spaces and `_` do not matter."""
    known = list(known)
    found: dict[str, None] = {}
    for name in names:
        plain = name.strip().lower().replace(" ", "-").replace("_", "-")
        if plain != "all" and plain not in known:
            raise InvalidLoad(f"Unknown policy={name!r}. Use all, or some of {', '.join(known)}.")
        found.update(dict.fromkeys(known if plain == "all" else [plain]))
    return list(found)


def play(policy: str, load: Load, bound: Bound, *, keep_timeline: bool = False) -> SimulationResult:
    """Play a load with the policy of this name."""
    if policy == HINDSIGHT:
        return play_hindsight(load, bound, keep_timeline=keep_timeline)
    return run(load, bound, policy, POLICIES[policy], keep_timeline=keep_timeline)


def play_app_decider(
    name: str, decide: AppDecider, load: Load, bound: Bound, *, keep_timeline: bool = False
) -> SimulationResult:
    """Play a load with a function of the app as the only decider. An exception in it ends the simulation."""
    start = use_deciders(APP_DECIDER, app_decider=decide)
    return run(load, bound, name, start, keep_timeline=keep_timeline)


def play_hindsight(load: Load, bound: Bound, *, keep_timeline: bool = False) -> SimulationResult:
    """Play a load with every fixed size that can win, and return the best result."""
    best: SimulationResult | None = None
    for size in HINDSIGHT_SIZES:
        least = size * load.length / bound.worker_seconds
        if best is not None and least > best.score:
            break
        if least < 0.8 and size < HINDSIGHT_SIZES[-1]:
            continue
        result = run(load, bound, HINDSIGHT, partial(static, size), setting=str(size), keep_timeline=keep_timeline)
        best = result if best is None or result.score < best.score else best
    assert best is not None
    return best
