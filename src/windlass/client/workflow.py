"""Workflows: tasks that depend on each other, built in Python and submitted together.

A step passed as an argument, also inside lists, dicts and dataclasses, is a prerequisite and is replaced by its result
when the task runs. Nothing is written until the block ends, and nothing at all if it ends with an error.
"""

from __future__ import annotations

from typing import Any

from windlass.client.app_store import AppStore
from windlass.client.async_bridge import in_thread
from windlass.client.context import current_assignment
from windlass.client.events import Events
from windlass.client.notebook import html_list
from windlass.client.step_builder import Step as Step  # noqa: PLC0414 - a public name of this module too
from windlass.client.step_builder import StepBuilder
from windlass.core.names import check_name, check_text
from windlass.core.submission import MAX_BATCH
from windlass.core.waits import is_event
from windlass.errors import NotAllowed
from windlass.stores.protocol import Filter

_SHOWN = 50
"""How many steps a notebook shows."""
_PART = 10_000
"""Tasks per submit when a workflow is too large for one batch."""


class Workflow(StepBuilder):
    """Builds a workflow; see `App.workflow`."""

    def __init__(
        self, app_store: AppStore, name: str, tenant: str | None = None, conn: Any = None, *, append: bool = False
    ) -> None:
        check_text("workflow", name)
        if tenant is None:
            running = current_assignment()
            tenant = "default" if running is None else running.tenant
        check_name("tenant", tenant)
        super().__init__(app_store, name, tenant)
        self.name: str = name
        self._conn = conn
        self._append = append
        self._is_open = True

    def set_event(self, event: str, value: Any = None, *, by: str = "", why: str = "") -> bool:
        """Set an event of this workflow; see `app.events.set`."""
        return Events(self._app_store).set(self.name, event, value, tenant=self.tenant, by=by, why=why)

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotAllowed(f"Workflow {self.name!r} is already submitted. Open it again to add tasks.")

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
        page = self._app_store.store.find(where, limit=100)
        if not all(is_event(task.wait) for task in page.tasks):  # An event may be set before its workflow exists.
            raise NotAllowed(
                f"Workflow {self.name!r} already exists, and the new tasks without a key would be added to it. Use "
                "another name, give every task a key (a repeated submit then creates nothing), or pass append=True."
            )

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
