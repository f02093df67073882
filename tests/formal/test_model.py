from __future__ import annotations

import pytest

from tests.formal.spin import MISTAKES, explore, is_installed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed(), reason="Spin or gcc is not installed; `make model` needs both"),
]


def test_no_reachable_state_breaks_a_promise() -> None:
    found = explore()

    assert found.violation == ""
    assert found.states > 1_000_000, "the model became so small that it proves little"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_is_found(mistake: str) -> None:
    assert explore(mistake).violation
