"""The next version of the app: one handler more. Nodes of both versions run side by side (F34)."""

from __future__ import annotations

from tests.chaos.app import QUICK, add_up, app, recorded
from windlass import current

__all__ = ["app"]


@app.task(name="chaos.added", queue="light", retry=QUICK, timeout="3s", max_crashes=8)
def added(number: int, seconds: float, trouble: str, before: list[int]) -> int:
    """Do what only the newer version can."""
    with recorded(str(current().task_id), current().fence):
        return add_up(number, before)
