"""`WindlassBackend`: tasks of `django.tasks` (Django 6) or django-tasks (Django 5) that run in Windlass workers.

Every `@task` function becomes a handler of the project's app under its import path, when its module is imported. In an
open transaction of the database that has the tasks, `enqueue` joins it, so a task exists if and only if its rows do.
"""

# Django has no types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import iscoroutinefunction
from traceback import format_exception
from typing import Any, ClassVar
from uuid import UUID

import msgspec
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string

from windlass.client.async_bridge import in_thread
from windlass.client.context import GiveUp, current
from windlass.client.execution import describe_error
from windlass.client.options import check_fields, task_fields
from windlass.core.lifecycle import State
from windlass.core.retry import Retry
from windlass.core.task import Attempt, Task, TaskId
from windlass.core.times import Micros, to_datetime
from windlass.errors import InvalidTask
from windlass.integrations.django import app
from windlass.integrations.django.settings import joined_database
from windlass.integrations.django.tasks_api import api

BaseBackend: Any = api("backends.base").BaseTaskBackend
_base: Any = api("base")
_exceptions: Any = api("exceptions")
_signals: Any = api("signals")
_Status: Any = _base.TaskResultStatus

_ENDS = {
    State.FAILED: "windlass.errors.TaskFailed",
    State.CANCELLED: "windlass.errors.TaskCancelled",
    State.EXPIRED: "windlass.errors.TaskExpired",
}
"""The errors of tasks that ended badly without an exception, such as by a crash of their worker."""


class WindlassBackend(BaseBackend):
    """Enqueues Django tasks in Windlass. `OPTIONS` are the options of `@app.task`, such as `{"retries": 5}`.

    >>> TASKS = {"default": {"BACKEND": "windlass.integrations.django.backend.WindlassBackend"}}
    """

    supports_defer: ClassVar[bool] = True
    supports_async_task: ClassVar[bool] = True
    supports_get_result: ClassVar[bool] = True
    supports_priority: ClassVar[bool] = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            check_fields(task_fields(self.options, {"handler": "django.task"}))
        except (InvalidTask, TypeError) as error:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]['OPTIONS']: {error}") from None

    def validate_task(self, task: Any) -> None:
        """Check a task, and register its function as a handler. Django calls it for every task that is defined."""
        super().validate_task(task)
        if task.module_path not in app.handlers:
            make = _async_handler if iscoroutinefunction(task.func) else _handler
            app.task(name=task.module_path, **self.options)(make(self, task))

    def enqueue(self, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a task, in the open transaction of the database that has the tasks, if there is one."""
        self.validate_task(task)
        result = _result(task, self.alias, args, kwargs)
        handler = self._using(task)
        handle = handler.enqueue(args=result.args, kwargs=result.kwargs)
        _set(result, id=str(handle.id), enqueued_at=timezone.now())
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the state of a task by its id."""
        try:
            id = TaskId(UUID(str(result_id)))
        except ValueError:
            raise _exceptions.TaskResultDoesNotExist(result_id) from None
        [found] = app.store.get([id])
        if found is None:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return self._result_of(found, app.store.attempts(id))

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """Return what is wrong with the settings of the backend."""
        from django.apps import apps

        if apps.is_installed("windlass.integrations.django"):
            return []
        hint = "Add 'windlass.integrations.django' to INSTALLED_APPS: it has the worker, manage.py windlass_worker."
        return [checks.Error(f"TASKS[{self.alias!r}] needs the app of Windlass.", hint=hint, id="windlass.E006")]

    def _using(self, task: Any) -> Any:
        options: dict[str, Any] = {"queue": task.queue_name, "priority": task.priority}
        if task.run_after is not None:
            options["at"] = timezone.make_aware(task.run_after) if timezone.is_naive(task.run_after) else task.run_after
        alias = joined_database()
        if alias is not None and connections[alias].in_atomic_block:
            options["conn"] = connections[alias]
        return app.handlers[task.module_path].using(**self.options, **options)

    def _result_of(self, found: Task, attempts: list[Attempt]) -> Any:
        """Return a stored task as Django shows it."""
        given: Any = msgspec.json.decode(found.args)
        try:
            defined = import_string(found.handler)
            task = defined.using(queue_name=found.queue, priority=found.priority, backend=self.alias)
            args, kwargs = given["args"], given["kwargs"]
        except (ImportError, AttributeError, KeyError, TypeError):  # A handler of the app that is not a Django task.
            raise _exceptions.TaskResultDoesNotExist(str(found.id)) from None
        result = _result(task, self.alias, args, kwargs)
        running = found.state is State.LEASED
        starts = [attempt.started for attempt in attempts] + ([found.claimed] if running and found.claimed else [])
        sessions = [str(attempt.session) for attempt in attempts] + ([str(found.session)] if running else [])
        _set(
            result,
            id=str(found.id),
            status=_status(found.state),
            enqueued_at=_time(found.submitted),
            started_at=_time(min(starts, default=None)),
            last_attempted_at=_time(max(starts, default=None)),
            finished_at=_time(found.finished) if found.state.final else None,
            errors=_errors(found, attempts),
            worker_ids=sessions,
        )
        if found.state is State.COMPLETED and found.result is not None:
            _set(result, _return_value=msgspec.json.decode(found.result))
        return result


def _handler(backend: WindlassBackend, task: Any) -> Callable[..., Any]:
    def run(args: Any, kwargs: Any) -> Any:
        result = _begin(backend, task, args, kwargs)
        _signals.task_started.send(type(backend), task_result=result)
        try:
            value = _base.normalize_json(task.func(*_context(task, result), *args, **kwargs))
        except Exception as error:
            if _fail(result, error):
                _signals.task_finished.send(type(backend), task_result=result)
            raise
        _succeed(result, value)
        _signals.task_finished.send(type(backend), task_result=result)
        return value

    return _named(run, task)


def _async_handler(backend: WindlassBackend, task: Any) -> Callable[..., Any]:
    async def run(args: Any, kwargs: Any) -> Any:
        result = await in_thread(_begin, backend, task, args, kwargs)
        await _signals.task_started.asend(type(backend), task_result=result)
        try:
            value = _base.normalize_json(await task.func(*_context(task, result), *args, **kwargs))
        except Exception as error:
            if _fail(result, error):
                await _signals.task_finished.asend(type(backend), task_result=result)
            raise
        _succeed(result, value)
        await _signals.task_finished.asend(type(backend), task_result=result)
        return value

    return _named(run, task)


def _named(run: Callable[..., Any], task: Any) -> Callable[..., Any]:
    """Give the function of a handler the name and the documentation of the Django task."""
    run.__module__, run.__qualname__, run.__name__ = task.func.__module__, task.func.__qualname__, task.func.__name__
    run.__doc__ = task.func.__doc__
    return run


def _begin(backend: WindlassBackend, task: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of the attempt that runs here.

    The store is asked only for a task that takes the context. Otherwise earlier attempts are only counted.
    """
    running, now = current(), timezone.now()
    if task.takes_context:
        result = backend.get_result(str(running.task_id))
    else:
        result = _result(task, backend.alias, args, kwargs)
        enqueued = (running.task_id.int >> 80) * 1_000  # The first 48 bits of the id are its milliseconds.
        workers = ["unknown"] * (running.attempt - 1) + [str(running.lease.session)]
        first = now if running.attempt == 1 else None
        _set(result, id=str(running.task_id), enqueued_at=_time(enqueued), started_at=first, worker_ids=workers)
    _set(result, task=task, status=_Status.RUNNING, last_attempted_at=now)
    return result


def _context(task: Any, result: Any) -> list[Any]:
    """Return the first argument of a task that takes the context."""
    return [_base.TaskContext(task_result=result)] if task.takes_context else []


def _succeed(result: Any, value: Any) -> None:
    _set(result, status=_Status.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)


def _fail(result: Any, error: Exception) -> bool:
    """Record an error. Return False if another attempt follows, so that the task is not finished."""
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    result.errors.append(_base.TaskError(exception_class_path=path, traceback="".join(format_exception(error))))
    retry: Retry = app.handlers[current().handler].fields.get("retry", Retry())
    if not isinstance(error, GiveUp) and retry.next_delay(current().attempt, describe_error(error), lambda: 0.5):
        return False
    _set(result, status=_Status.FAILED, finished_at=timezone.now())
    return True


def _result(task: Any, alias: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    return _base.TaskResult(
        task=task,
        id="",
        status=_Status.READY,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _set(result: Any, **values: Any) -> None:
    """Set fields of a result, which is frozen for its users."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _status(state: State) -> Any:
    if state is State.COMPLETED:
        return _Status.SUCCESSFUL
    if state.ended_badly:
        return _Status.FAILED
    return _Status.RUNNING if state is State.LEASED else _Status.READY


def _time(moment: Micros | None) -> datetime | None:
    return None if moment is None else to_datetime(moment)


def _errors(found: Task, attempts: list[Attempt]) -> list[Any]:
    errors = [
        _base.TaskError(
            exception_class_path=_path(each.error.kind, each.error.traceback), traceback=each.error.traceback
        )
        for each in attempts
        if each.error is not None
    ]
    if not errors and found.state in _ENDS:
        errors.append(_base.TaskError(exception_class_path=_ENDS[found.state], traceback=found.reason or ""))
    return errors


def _path(kind: str, traceback: str) -> str:
    """Return the import path of an exception class, which the last line of its traceback has, unless it is built in."""
    named = re.findall(rf"^((?:\w+\.)+){re.escape(kind)}(?::|$)", traceback, re.MULTILINE)
    return f"{named[-1] if named else 'builtins.'}{kind}"
