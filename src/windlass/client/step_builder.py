"""Builds steps of a workflow in Python: calls of handlers, events to wait for, and sleeps.

A step passed as an argument, also inside lists, dicts and dataclasses, is a prerequisite and is replaced by its result
when the task runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from windlass.client.app_store import AppStore
from windlass.client.arguments import SCALARS, Signature, count_references, reject_references
from windlass.client.handle import Handle
from windlass.client.handlers import Using
from windlass.client.options import prerequisites
from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.names import check_type
from windlass.core.references import reference
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.core.times import Duration, duration, format_duration, span
from windlass.core.validation import check_task
from windlass.core.waits import EVENT, SLEEP, make_wait
from windlass.errors import InvalidTask

R_co = TypeVar("R_co", covariant=True)
Policy = OnFailure | Literal["cancel", "run"]


class Step(Handle[R_co]):
    """A task of a workflow: a reference while the workflow is built, a handle after it is submitted."""

    __slots__ = ()


class StepBuilder:
    """Collects steps. `Workflow` and `MoreSteps` submit them."""

    def __init__(self, app_store: AppStore, name: str | None, tenant: str) -> None:
        self.name = name
        """The name of the workflow."""
        self.tenant = tenant
        self.steps: list[Step[Any]] = []
        """The steps so far."""
        self._app_store = app_store
        self._tasks: list[NewTask] = []
        self._events: dict[str, tuple[NewTask, Step[Any]]] = {}

    def add(
        self,
        handler: Using[..., R_co],
        *args: Any,
        after: Iterable[Any] = (),
        on_failure: Policy | None = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> Step[R_co]:
        """Add a task. Pass other options with `handler.using(...)`. Steps among the arguments are prerequisites."""
        self._check_open()
        return self._add(self._call(handler, args, kwargs, after=after, on_failure=on_failure, key=key))

    def wait_for(
        self,
        event: str,
        *,
        timeout: Duration | None = None,
        after: Iterable[Any] = (),
        on_failure: Policy | None = None,
    ) -> Step[Any]:
        """Add a step that waits until the event is set (`app.events.set`). Its result is what comes with the event.

        Without `timeout` it waits forever. The timeout counts from when the prerequisites have ended; then the step
        expires, and `on_failure` of the steps after it decides whether they run. No worker is busy meanwhile.

        >>> approved = wf.wait_for("approved", timeout="2d", after=[draft])
        >>> wf.add(publish, draft, approved)
        """
        self._check_open()
        args = {"event": event, "timeout": None if timeout is None else _text(timeout, "timeout")}
        new = self._wait(EVENT, args, after, on_failure, None)
        known = self._events.get(event)
        if known is None:
            known = self._events[event] = (new, self._add(new))
        if known[0] != new:
            raise InvalidTask(f"event={event!r}: the workflow already waits for it with other options.")
        return known[1]

    def sleep(
        self, length: Duration, *, after: Iterable[Any] = (), on_failure: Policy | None = None, key: str | None = None
    ) -> Step[None]:
        """Add a step that completes this long after its prerequisites have ended. No worker is busy meanwhile.

        >>> wf.add(remind, after=[wf.sleep("3d", after=[invoice])])
        """
        self._check_open()
        return self._add(self._wait(SLEEP, {"for": _text(length, "length")}, after, on_failure, key))

    def sleep_until(
        self, moment: datetime, *, after: Iterable[Any] = (), on_failure: Policy | None = None, key: str | None = None
    ) -> Step[None]:
        """Add a step that completes at this time, or when its prerequisites have ended if that is later."""
        self._check_open()
        return self._add(self._wait(SLEEP, {"until": moment}, after, on_failure, key))

    def _check_open(self) -> None:
        """Raise `NotAllowed` if no more steps can be added."""

    def _call(
        self,
        handler: Using[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        after: Iterable[Any],
        on_failure: Policy | None,
        key: str | None,
    ) -> NewTask:
        check_type("handler", handler, Using, "pass a function decorated with @app.task")
        encoded, references = _encode(handler.signature, args, kwargs)
        fields: dict[str, Any] = {**handler.fields, "tenant": self.tenant, "workflow": self.name}
        task = handler.signature.fill_key(NewTask(args=encoded, **fields))
        waits_for = dict.fromkeys([*task.prerequisites, *prerequisites(after), *references])
        task = replace(
            task,
            prerequisites=tuple(waits_for),
            key=task.key if key is None else key,
            on_failure=task.on_failure if on_failure is None else on_failure,
        )
        return check_task(task)

    def _wait(
        self, handler: str, args: dict[str, Any], after: Iterable[Any], on_failure: Policy | None, key: str | None
    ) -> NewTask:
        new = NewTask(
            handler=handler,
            args=args,
            tenant=self.tenant,
            workflow=self.name,
            key=key,
            prerequisites=tuple(dict.fromkeys(prerequisites(after))),
            on_failure=OnFailure.CANCEL if on_failure is None else on_failure,  # pyright: ignore[reportArgumentType] - text is checked
        )
        return check_task(make_wait(new))

    def _add(self, task: NewTask) -> Step[Any]:
        step: Step[Any] = Step(self._app_store, self._id_of(task))
        self._tasks.append(task if task.key is not None else replace(task, id=step.id))
        self.steps.append(step)
        return step

    def _id_of(self, task: NewTask) -> TaskId:
        if task.key is not None:
            return keyed_id(self.tenant, self.name, task.key)
        return fresh_id(SystemClock().now(), entropy(1)())


def _text(length: Duration, field: str) -> str:
    return format_duration(span(duration(length, field), field))


def _encode(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[UUID]]:
    """Return the arguments as JSON with references in them, and the ids of the referenced tasks."""
    given = signature.by_name(args, kwargs)
    references: list[UUID] = []
    for name, value in given.items():
        found, with_references = _with_references(value)
        if found and count_references(with_references) != len(found):
            reject_references(name)
        references += found
        given[name] = with_references if found else signature.type_of(name).encode(value, name)
    return given, references


def _with_references(value: Any) -> tuple[list[UUID], Any]:
    found: list[UUID] = []
    if type(value) in SCALARS:
        return found, value
    try:
        return found, msgspec.to_builtins(value, str_keys=True, enc_hook=_reference_hook(found))
    except (TypeError, ValueError, RecursionError):
        return [], value  # Its annotation rejects it, with a message that names the argument.


def _reference_hook(found: list[UUID]) -> Callable[[Any], Any]:
    def hook(value: Any) -> Any:
        if isinstance(value, Handle):
            found.append(value.id)
            return reference(value.id)
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        raise TypeError(f"{type(value).__qualname__} has no JSON form")

    return hook
