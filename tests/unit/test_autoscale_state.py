"""The stored state of a controller: its size, and compatibility with other versions."""

from __future__ import annotations

from random import Random

import msgspec

from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState, tick
from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings

LARGEST = 20_000


def restless(rng: Random) -> Observation:
    return busy(
        rng.randrange(100), rng.randrange(1, 200), start_delay=90.0, queued=rng.randrange(900),
        oldest=rng.random() * 90, deaths=rng.randrange(2), errors=0, starting=rng.randrange(20),
    )  # fmt: skip


def test_the_state_stays_small_over_hours() -> None:
    rng, state, largest = Random(7), ControllerState(), 0
    settings = Settings(deciders=tuple(DECIDERS), max=500, price=1.0, cost_per_hour=100.0)
    for second in range(3 * 3600):
        state = tick(1.8e9 + second + rng.random() / 10, restless(rng), state, settings).state
        if second % 60 == 0:
            largest = max(largest, len(msgspec.json.encode(state)))

    assert largest < LARGEST


def test_a_stored_state_is_decoded_unchanged() -> None:
    lived = played([busy(10, 11, queued=30, oldest=2.0, deaths=1)] * 400, settings=Settings(deciders=tuple(DECIDERS)))
    state = lived[-1].state

    assert msgspec.json.decode(msgspec.json.encode(state), type=ControllerState) == state


def test_a_state_of_another_version_is_decoded() -> None:
    stored = b"""{"version": 0, "target": 7, "at": 5.5, "gone": [1], "estimates": {"late": 2.0, "later": {}},
        "pace": {"steady": [[4.5, 6.2]], "tokens": 3}}"""

    state = msgspec.json.decode(stored, type=ControllerState)

    assert (state.target, state.estimates.late, state.pace.tokens) == (7, 2.0, 3.0)
    assert tick(6.5, busy(1, 7), state, Settings()).target == 7
