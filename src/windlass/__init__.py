"""Windlass: a durable task scheduler for Python with a worker pool that sizes itself.

>>> import windlass
>>> app = windlass.App("memory:")
>>> @app.task(queue="mail", retries=5, timeout="30s")
... def send(to: str, subject: str = "") -> int: ...
>>> handle = send.enqueue("a@b.c")

or, without a store, the in-memory engine alone:

>>> scheduler = windlass.Scheduler()
>>> scheduler.add_tasks([windlass.NewTask(id="a", deadline=3), windlass.NewTask(id="b", deadline=1)])
"""

from windlass.app import App
from windlass.context import Cancelled, Context, GiveUp, RetryIn, SoftTimeout, current
from windlass.core.gates import Why
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import ErrorRule, Retry
from windlass.core.scheduler import Scheduler
from windlass.core.task import NewTask, OnFailure, Task
from windlass.errors import (
    CycleFound,
    DuplicateTask,
    EndedBadly,
    InvalidPayload,
    InvalidTask,
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
    UnknownPrerequisite,
    UnknownTask,
    WindlassError,
)
from windlass.handle import Handle
from windlass.handlers import Handler
from windlass.wiring import open_store
from windlass.workflow import Step, Workflow

__all__ = [
    "App",
    "Cancelled",
    "Context",
    "CycleFound",
    "DuplicateTask",
    "EndedBadly",
    "ErrorRule",
    "GiveUp",
    "Handle",
    "Handler",
    "InvalidPayload",
    "InvalidTask",
    "KeyConflict",
    "NewTask",
    "NotAllowed",
    "OnFailure",
    "Queue",
    "QueueFull",
    "Retry",
    "RetryIn",
    "Scheduler",
    "SessionLost",
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
    "UnknownPrerequisite",
    "UnknownTask",
    "Why",
    "WindlassError",
    "Workflow",
    "current",
    "open_store",
]
