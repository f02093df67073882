"""Windlass: a durable task scheduler for Python with a worker pool that sizes itself.

>>> import windlass
>>> app = windlass.App("memory:")
>>> @app.task(queue="mail", retries=5, timeout="30s")
... def send(to: str, subject: str = "") -> int: ...
>>> handle = send.enqueue("a@b.c")

Or, without a store, only the in-memory engine:

>>> scheduler = windlass.Scheduler()
>>> scheduler.add_tasks([windlass.NewTask(id="a", deadline=3), windlass.NewTask(id="b", deadline=1)])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client.app import App
    from windlass.client.context import Cancelled, Context, GiveUp, RetryIn, SoftTimeout, current
    from windlass.client.handle import Handle
    from windlass.client.handlers import Handler
    from windlass.client.inspection_views import DeadGroup, NodeInfo, PoolInfo, QueueInfo, WorkerInfo
    from windlass.client.more_steps import MoreSteps, more_steps
    from windlass.client.schedules import Schedule
    from windlass.client.step_builder import Step
    from windlass.client.task_view import Attempt, Progress, Task
    from windlass.client.workflow import Workflow
    from windlass.core.lifecycle import State
    from windlass.core.ordering import Queue, Strategy
    from windlass.core.retry import ErrorRule, Retry
    from windlass.core.scheduler import Scheduler
    from windlass.core.task import NewTask, OnFailure, Rate
    from windlass.core.why import Why
    from windlass.custom_decider import PoolSituation
    from windlass.errors import (
        Conflict,
        CronExists,
        CycleFound,
        DeadlineUnreachable,
        DuplicateTask,
        EndedBadly,
        EventConflict,
        InvalidFilter,
        InvalidPayload,
        InvalidTask,
        KeyBusy,
        KeyConflict,
        NotAllowed,
        QueueFull,
        SessionLost,
        StaleLease,
        StillUnfinished,
        StoreError,
        StoreUnavailable,
        TaskCancelled,
        TaskExpired,
        TaskFailed,
        UnknownCron,
        UnknownPrerequisite,
        UnknownTask,
        WindlassError,
    )
    from windlass.redaction import Secret
    from windlass.simulation.run import SimulationResult
    from windlass.simulation.simulate import simulate
    from windlass.wiring import open_store
    from windlass.worker_node import WorkerNode

__all__ = [
    "App",
    "Attempt",
    "Cancelled",
    "Conflict",
    "Context",
    "CronExists",
    "CycleFound",
    "DeadGroup",
    "DeadlineUnreachable",
    "DuplicateTask",
    "EndedBadly",
    "ErrorRule",
    "EventConflict",
    "GiveUp",
    "Handle",
    "Handler",
    "InvalidFilter",
    "InvalidPayload",
    "InvalidTask",
    "KeyBusy",
    "KeyConflict",
    "MoreSteps",
    "NewTask",
    "NodeInfo",
    "NotAllowed",
    "OnFailure",
    "PoolInfo",
    "PoolSituation",
    "Progress",
    "Queue",
    "QueueFull",
    "QueueInfo",
    "Rate",
    "Retry",
    "RetryIn",
    "Schedule",
    "Scheduler",
    "Secret",
    "SessionLost",
    "SimulationResult",
    "SoftTimeout",
    "StaleLease",
    "State",
    "Step",
    "StillUnfinished",
    "StoreError",
    "StoreUnavailable",
    "Strategy",
    "Task",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
    "UnknownCron",
    "UnknownPrerequisite",
    "UnknownTask",
    "Why",
    "WindlassError",
    "WorkerInfo",
    "WorkerNode",
    "Workflow",
    "current",
    "more_steps",
    "open_store",
    "simulate",
]

# The modules of the public names, leaves first and rarely used ones last. A name is imported on first use, so that the
# command line, which needs few of them, starts quickly.
_MODULES = (
    "windlass.errors",
    "windlass.redaction",
    "windlass.core.lifecycle",
    "windlass.core.ordering",
    "windlass.core.retry",
    "windlass.client.task_view",  # Its `Task`, `Attempt` and `Progress` are the public ones, not those of `core.task`.
    "windlass.core.task",
    "windlass.core.scheduler",
    "windlass.core.why",
    "windlass.wiring",
    "windlass.client.context",
    "windlass.client.handle",
    "windlass.client.handlers",
    "windlass.client.schedules",
    "windlass.client.step_builder",
    "windlass.client.workflow",
    "windlass.client.more_steps",
    "windlass.client.app",
    "windlass.client.inspection_views",
    "windlass.worker_node",
    "windlass.custom_decider",
    "windlass.simulation.run",
    "windlass.simulation.simulate",
)


def __getattr__(name: str) -> object:
    for path in _MODULES if name in __all__ else ():
        module = importlib.import_module(path)
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module 'windlass' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
