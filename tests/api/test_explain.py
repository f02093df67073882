"""What `why` reads from the store: the breaker of the task's downstream."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import App
from windlass.core.breaker import Breaker, encode, record


@pytest.fixture
def pay(app: App) -> Any:
    @app.task(name="pay", downstream="payments")
    def pay() -> None: ...

    return pay


def test_why_names_the_breaker_that_blocks_the_task(app: App, pay: Any) -> None:
    handle = pay.enqueue()
    assert "payments is closed" in str(handle.why())

    opened = record(Breaker(), 0, attempts=10, errors=10)
    assert app.store.put_control("breaker", "payments", encode(opened), expect=0)

    gate = handle.why().closed
    assert gate is not None
    assert gate.name == "downstream"
    assert "10 attempts in a row failed" in gate.text


def test_a_breaker_that_cannot_be_read_blocks_nothing(app: App, pay: Any) -> None:
    handle = pay.enqueue()
    app.store.put_control("breaker", "payments", "{", expect=0)

    assert "payments is closed" in str(handle.why())
