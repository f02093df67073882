"""Django tasks that the guide does not show. They are in a module of their own, which `MODULES` names."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from django.tasks import task

from windlass import RetryIn, current
from windlass.integrations.django.backend import _signals as signals


class ExplosionError(Exception):
    """An error of the project."""


@task
def explode() -> None:
    raise RetryIn(0) if current().attempt < 3 else ExplosionError("boom")


@task
def misuse() -> object:
    from windlass import GiveUp

    raise GiveUp("never") if current().attempt == 1 else ValueError


@task
def slow_answer() -> str:
    time.sleep(0.3)
    return "slow"


def record(signal: str, task_result: Any) -> None:
    """Write what a signal in the worker shows."""
    line = [
        signal,
        task_result.task.name,
        task_result.status,
        task_result.attempts,
        task_result.enqueued_at is not None,
    ]
    with Path("signals.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


signals.task_started.connect(lambda task_result, **_: record("started", task_result), weak=False)
signals.task_finished.connect(lambda task_result, **_: record("finished", task_result), weak=False)
