from __future__ import annotations

import re

import pytest

from tests.formal.spin import MISTAKES, explore, get_path, is_installed

pytestmark = pytest.mark.slow
needs_spin = pytest.mark.skipif(not is_installed(), reason="Spin or gcc is not installed; `make model` needs both")

FEWEST_STATES = {"lease": 1_000_000, "graph": 100_000}


@needs_spin
@pytest.mark.parametrize("model", MISTAKES)
def test_no_reachable_state_breaks_a_promise(model: str) -> None:
    found = explore(model)

    assert found.violation == ""
    assert found.states > FEWEST_STATES[model], "the model became so small that it proves little"


@needs_spin
@pytest.mark.parametrize(("model", "mistake"), [(model, name) for model in MISTAKES for name in MISTAKES[model]])
def test_the_mistake_is_found(model: str, mistake: str) -> None:
    assert explore(model, mistake).violation


@pytest.mark.parametrize("model", MISTAKES)
def test_every_flag_of_a_model_is_listed_as_a_mistake(model: str) -> None:
    flags = re.findall(r"^#ifn?def (\w+)$", get_path(model).read_text(), re.MULTILINE)

    assert set(flags) == MISTAKES[model].keys()
