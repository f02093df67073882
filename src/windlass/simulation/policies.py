"""Every policy by name, and how one is played: a rival in all its settings, of which the best is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.simulation.bound import Bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.ours import OURS, AppDecider, use_app_decider
from windlass.simulation.policy import Start
from windlass.simulation.results import SimulationResult
from windlass.simulation.rivals import LIMITS, RIVALS
from windlass.simulation.rivals.limits import play_hindsight
from windlass.simulation.score import run

POLICIES: Mapping[str, Mapping[str, Start]] = {**OURS, **RIVALS, **LIMITS, "hindsight": {}}
"""By name, each with its settings; the best fixed size by hindsight has none, since it is sought for each load."""
ALL: Sequence[str] = ("slo", *RIVALS, "hindsight", "clairvoyant")
"""What `all` means: our default, everybody else, and the limits."""


def find_policies(names: Iterable[str]) -> list[str]:
    """Names as people write them, each once; `all` stands for all that are to be compared."""
    found: dict[str, None] = {}
    for name in names:
        plain = name.strip().lower().replace(" ", "-").replace("_", "-")
        if plain != "all" and plain not in POLICIES:
            raise InvalidLoad(f"policy={name!r} is not known; give all, or some of {', '.join(POLICIES)}")
        found.update(dict.fromkeys(ALL if plain == "all" else [plain]))
    return list(found)


def settings_of(policy: str) -> Sequence[str]:
    """The settings in which it is to be tried."""
    return list(POLICIES[policy]) or [""]


def play(policy: str, setting: str, load: Load, limit: Bound, *, kept: bool = False) -> SimulationResult:
    """One policy in one setting over one load."""
    if policy == "hindsight":
        return play_hindsight(load, limit, kept=kept)
    return run(load, limit, policy, POLICIES[policy][setting], setting=setting, kept=kept)


def play_app_decider(name: str, decide: AppDecider, load: Load, limit: Bound, *, kept: bool = False) -> SimulationResult:
    """A decider of an app over one load."""
    return run(load, limit, name, use_app_decider(decide), setting="", kept=kept)


def play_best(policy: str, load: Load, limit: Bound, *, kept: bool = False) -> SimulationResult:
    """One policy over one load in the setting that serves it best."""
    settings = settings_of(policy)
    if len(settings) == 1:
        return play(policy, settings[0], load, limit, kept=kept)
    best = min((play(policy, setting, load, limit) for setting in settings), key=lambda result: result.score)
    return play(policy, best.setting, load, limit, kept=True) if kept else best
