"""Windlass: a durable task scheduler for Python with a worker pool that sizes itself.

>>> import windlass
>>> store = windlass.open_store("memory:")
>>> [receipt] = store.submit([windlass.NewTask(handler="mail.send", args={"to": "a@b.c"})])

or, without a store, the in-memory engine alone:

>>> scheduler = windlass.Scheduler()
>>> scheduler.add_tasks([windlass.NewTask(id="a", deadline=3), windlass.NewTask(id="b", deadline=1)])
"""

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import ErrorRule, Retry
from windlass.core.scheduler import Scheduler
from windlass.core.task import NewTask, OnFailure, Task
from windlass.errors import (
    CycleFound,
    DuplicateTask,
    InvalidPayload,
    InvalidTask,
    KeyConflict,
    NotAllowed,
    QueueFull,
    SessionLost,
    StoreError,
    StoreUnavailable,
    UnknownPrerequisite,
    UnknownTask,
    WindlassError,
)
from windlass.wiring import open_store

__all__ = [
    "CycleFound",
    "DuplicateTask",
    "ErrorRule",
    "InvalidPayload",
    "InvalidTask",
    "KeyConflict",
    "NewTask",
    "NotAllowed",
    "OnFailure",
    "Queue",
    "QueueFull",
    "Retry",
    "Scheduler",
    "SessionLost",
    "State",
    "StoreError",
    "StoreUnavailable",
    "Strategy",
    "Task",
    "UnknownPrerequisite",
    "UnknownTask",
    "WindlassError",
    "open_store",
]
