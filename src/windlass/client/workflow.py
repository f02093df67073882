"""Workflows: tasks that depend on each other, built in Python and submitted together.

A step passed as an argument, also inside lists, dicts and dataclasses, is a prerequisite and is replaced by its result
when the task runs. Nothing is written until the block ends, and nothing at all if it ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from windlass.client.app_store import AppStore
from windlass.client.arguments import SCALARS, Signature, count_references, reject_references
from windlass.client.async_bridge import in_thread
from windlass.client.context import current_assignment
from windlass.client.handle import Handle
from windlass.client.handlers import Using
from windlass.client.notebook import html_list
from windlass.client.options import prerequisites
from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.names import check_name, check_text, check_type
from windlass.core.references import reference
from windlass.core.submission import MAX_BATCH
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.core.validation import check_task
from windlass.errors import NotAllowed
from windlass.stores.protocol import Filter

R_co = TypeVar("R_co", covariant=True)

_SHOWN = 50
"""How many steps a notebook shows."""
_PART = 10_000
"""Tasks per submit when a workflow is too large for one batch."""


class Step(Handle[R_co]):
    """A task of a workflow: a reference while the workflow is built, a handle after it is submitted."""

    __slots__ = ()


class Workflow:
    """Builds a workflow; see `App.workflow`."""

    def __init__(
        self, app_store: AppStore, name: str, tenant: str | None = None, conn: Any = None, *, append: bool = False
    ) -> None:
        check_text("workflow", name)
        if tenant is None:
            running = current_assignment()
            tenant = "default" if running is None else running.tenant
        check_name("tenant", tenant)
        self.name = name
        self.tenant = tenant
        self.steps: list[Step[Any]] = []
        self._app_store = app_store
        self._conn = conn
        self._append = append
        self._tasks: list[NewTask] = []
        self._is_open = True

    def add(
        self,
        handler: Using[..., R_co],
        *args: Any,
        after: Iterable[Any] = (),
        on_failure: OnFailure | Literal["cancel", "run"] | None = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> Step[R_co]:
        """Add a task. Pass other options with `handler.using(...)`. Steps among the arguments are prerequisites."""
        if not self._is_open:
            raise NotAllowed(f"Workflow {self.name!r} is already submitted. Open it again to add tasks.")
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
        task = check_task(task)
        step: Step[R_co] = Step(self._app_store, self._id_of(task))
        self._tasks.append(task if task.key is not None else replace(task, id=step.id))
        self.steps.append(step)
        return step

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the first steps and their states now."""
        heads, shown = ("step", "handler", "state"), list(zip(self.steps, self._tasks, strict=True))[:_SHOWN]
        found = self._app_store.store.get([step.id for step, _ in shown])
        rows = [
            (new.key or step.id, new.handler, "not submitted" if task is None else task.state.value)
            for (step, new), task in zip(shown, found, strict=True)
        ]
        more = f", the first {_SHOWN}" if len(self.steps) > _SHOWN else ""
        return html_list(f"Workflow {self.name}: {len(self.steps):,} steps{more}", heads, rows)

    def __enter__(self) -> Workflow:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_open = False
        if kind is None and self._tasks:
            if self._must_be_new:
                self._check_new()
            self._submit()

    async def __aenter__(self) -> Workflow:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_open = False
        if kind is not None or not self._tasks:
            return
        if self._must_be_new:
            await in_thread(self._check_new)
        if len(self._tasks) <= MAX_BATCH:
            await self._app_store.committer.asubmit(self._tasks, self._conn)
        else:
            await in_thread(self._submit)

    @property
    def _must_be_new(self) -> bool:
        return not self._append and any(task.key is None for task in self._tasks)

    def _check_new(self) -> None:
        """Raise `NotAllowed` if a workflow of this name has tasks: those without a key would be added to it."""
        where = Filter(workflow=self.name, tenant=self.tenant)
        if self._app_store.store.find(where, limit=1).tasks:
            raise NotAllowed(
                f"Workflow {self.name!r} already exists, and the new tasks without a key would be added to it. Use "
                "another name, give every task a key (a repeated submit then creates nothing), or pass append=True."
            )

    def _id_of(self, task: NewTask) -> TaskId:
        if task.key is not None:
            return keyed_id(self.tenant, self.name, task.key)
        return fresh_id(SystemClock().now(), entropy(1)())

    def _submit(self) -> None:
        if len(self._tasks) <= MAX_BATCH:
            self._app_store.committer.submit(self._tasks, self._conn)
            return
        if self._conn is not None:
            raise NotAllowed(f"conn= works for up to {MAX_BATCH:,} tasks; a larger workflow is submitted in parts.")
        store = self._app_store.store
        store.open_workflow(self.name, tenant=self.tenant, sealed=False)
        written = 0
        try:
            for written in range(0, len(self._tasks), _PART):
                self._app_store.committer.submit(self._tasks[written : written + _PART])
        except BaseException:
            # Its roots wait for the seal, so nothing has started: cancelling what was written undoes the submit.
            ids = [step.id for step in self.steps[:written]]
            for start in range(0, written, _PART):
                store.cancel(ids[start : start + _PART], reason="the rest of the workflow was refused")
            raise
        store.seal_workflow(self.name, tenant=self.tenant)


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
