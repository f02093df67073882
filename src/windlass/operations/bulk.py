"""Cancel, retry or purge many tasks at once: those with some ids, or all that match a filter. Count first, then act.

A cancel or a retry is one operation of the store: tasks wait for each other, so no task may change before all of them
are known. A purge goes in short batches and can be stopped between them. A filter selects only what the caller could
have found by reading, so that no action reveals a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec.structs import replace

from windlass.core.lifecycle import FINAL, UNFINISHED, State
from windlass.core.task import Task, TaskId
from windlass.errors import InvalidFilter, UnknownTask
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.cascade import check_cascade
from windlass.operations.paging import pages
from windlass.operations.reversal import FieldChange, Reversal
from windlass.operations.tasks import (
    cancel_reason,
    find_stored,
    is_plain,
    is_restorable,
    note_cancel,
    restore_cancelled,
)
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Selection

BATCH = 500
"""How many tasks are counted or purged in one step."""
FEW = 100
"""How many tasks are read at once with their arguments, of up to 256 KB each."""
MOST_RESTORED = 1_000
"""How many tasks a cancel may have that can be undone. Their ids are kept in its audit entry."""


class Verb(StrEnum):
    """What can be done to many tasks."""

    CANCEL = "cancel"
    RETRY = "retry"
    PURGE = "purge"

    @property
    def done(self) -> str:
        """Return the action as the audit log names it."""
        return {"cancel": "cancelled", "retry": "retried", "purge": "purged"}[self.value]

    @property
    def states(self) -> frozenset[State]:
        """Return the states of the tasks to which it applies. Other tasks stay as they are."""
        if self is Verb.CANCEL:
            return frozenset(UNFINISHED)
        return frozenset(FINAL) if self is Verb.PURGE else frozenset(state for state in FINAL if state.ended_badly)


class BulkAction:
    """One verb for a selection of tasks. Call `count` first; `run` does nothing before that."""

    def __init__(self, access: Access, verb: Verb, which: Selection, author: Author) -> None:
        if isinstance(which, Filter) and _matches_everything(which):
            raise InvalidFilter("", 0, "it matches every task. Name some ids, or add a condition such as queue:mail.")
        self._access, self._verb, self._which, self._author = access, verb, which, author
        self._selection: Selection = []
        """What the store gets: the filter, or ids if the filter has conditions that the store must not evaluate."""
        self.total = 0
        """How many tasks matched when they were counted."""
        self.exact = True
        """False if more than `total` tasks match."""

    def count(self) -> int:
        """Count the tasks to which the action applies."""
        return max(self.count_steps(), default=0)

    def run(self) -> int:
        """Do it, and return how many tasks were changed."""
        return max(self.run_steps(), default=0)

    def count_steps(self) -> Iterator[int]:
        """Count step by step; yield the number so far after each step."""
        if not isinstance(self._which, Filter):
            yield self._select_ids(self._which)
            return
        filter = self._filter(self._which)
        if filter is None:
            return
        # A caller who is limited to a queue cancels only tasks whose dependents were checked, so their ids are needed.
        checked = self._verb is Verb.CANCEL and self._access.caller.queue is not None
        if not checked and (filter.query is None or is_plain(filter.query)):
            found = self._access.store.count(filter)
            self._selection, self.total, self.exact = filter, found.tasks, found.exact
            yield self.total
            return
        ids: list[TaskId] = []
        self._selection = ids
        for page in pages(lambda after: find_stored(self._access, filter, limit=BATCH, after=after)):
            ids += [task.id for task in page.tasks]
            self.total = len(ids)
            yield self.total

    def run_steps(self) -> Iterator[int]:
        """Act step by step; yield the number of changed tasks so far after each step."""
        if self.exact and not self.total:
            return
        store = self._access.store
        match self._verb:
            case Verb.CANCEL:
                restorable = self._choose_restorable()
                if not isinstance(self._selection, Filter):
                    check_cascade(self._access, self._selection)
                reason = cancel_reason(self._author)
                undo = note_cancel(reason, restorable) if restorable else None
                yield store.cancel(self._selection, reason=reason, entries=[self._entry(undo=undo)])
            case Verb.RETRY:
                yield store.retry(self._selection, entries=[self._entry()])
            case Verb.PURGE:
                done = 0
                for batch in self._batches():
                    done += store.purge(batch, entries=[self._entry(batch)])
                    yield done

    def count_left(self) -> int | None:
        """Count the tasks that still match while another thread acts; None if the store cannot say it quickly."""
        if not isinstance(self._selection, Filter):
            return None
        found = self._access.store.count(self._selection)
        return found.tasks if found.exact else None

    def _select_ids(self, ids: Sequence[TaskId]) -> int:
        states, caller = self._verb.states, self._access.caller
        found = [task for task in self._access.store.get(ids) if task is not None and caller.can_see(task)]
        self._selection = [task.id for task in found if task.state in states]
        self.total = len(self._selection)
        return self.total

    def _filter(self, filter: Filter) -> Filter | None:
        states = filter.states & self._verb.states if filter.states else self._verb.states
        return self._access.narrow(replace(filter, states=states)) if states else None

    def _batches(self) -> Iterator[Sequence[TaskId]]:
        selection = self._selection
        if isinstance(selection, Filter):
            for page in pages(lambda after: self._access.store.find(selection, limit=BATCH, after=after)):
                if page.tasks:
                    yield [task.id for task in page.tasks]
        else:
            for start in range(0, len(selection), BATCH):
                yield selection[start : start + BATCH]

    def _choose_restorable(self) -> list[TaskId]:
        """Choose the tasks of a cancel one by one, if their number allows to undo it. Return those not started.

        Only ids are kept: the arguments of a thousand tasks may have 256 MB.
        """
        if not self.exact or self.total > MOST_RESTORED:
            return []
        chosen: dict[TaskId, bool] = {}
        for task in self._tasks():
            chosen[task.id] = is_restorable(task)
            if len(chosen) > MOST_RESTORED:
                return []
        self._selection = list(chosen)
        return [id for id, restorable in chosen.items() if restorable]

    def _tasks(self) -> Iterator[Task]:
        store, selection = self._access.store, self._selection
        if isinstance(selection, Filter):
            for page in pages(lambda after: store.find(selection, limit=FEW, after=after)):
                yield from page.tasks
        else:
            for start in range(0, len(selection), FEW):
                yield from (task for task in store.get(selection[start : start + FEW]) if task is not None)

    def _entry(self, batch: Sequence[TaskId] | None = None, undo: FieldChange | None = None) -> Entry:
        """Return the audit entry of the whole action, or of one batch, which is a transaction of its own."""
        which, total = self._which, self.total if batch is None else len(batch)
        least = "" if self.exact or batch is not None else "at least "
        number = f"{least}{total:,} task{'s' * (total != 1)}"
        if isinstance(which, Filter):
            subject, text = "tasks", f"{self._verb.done} {number} that matched {_describe(which)}"
        else:
            subject = f"task/{which[0]}" if len(which) == 1 else "tasks"
            text = f"{self._verb.done} {number}"
        data = {"total": total, "which": _as_data(which)} | ({} if undo is None else {"undo": undo})
        return self._author.entry(subject, self._verb.done, text, **data)


def restore(access: Access, _: str, reversal: Reversal) -> int:
    """Undo a cancel of several tasks. Return the number of tasks that went back."""
    return restore_cancelled(access, reversal.change.tasks, reversal)


def check_known(access: Access, ids: Sequence[TaskId]) -> None:
    """Raise `UnknownTask` for the first id that no task has that the caller may see."""
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        for id, task in zip(batch, access.store.get(batch), strict=True):
            if task is None or not access.caller.can_see(task):
                raise UnknownTask(id)


def _matches_everything(filter: Filter) -> bool:
    has_conditions = filter.query is not None and bool(filter.query.conditions)
    return not has_conditions and replace(filter, query=None) == Filter()


def _describe(filter: Filter) -> str:
    """Return a filter in the filter language."""
    fields = ("queue", "tenant", "workflow", "handler")
    parts = [f"{name}:{value}" for name in fields if (value := getattr(filter, name)) is not None]
    if filter.states:
        parts.insert(0, f"state:{','.join(sorted(filter.states))}")
    return repr(" ".join([*parts, str(filter.query)] if filter.query else parts))


def _as_data(which: Selection) -> object:
    """Return a selection as the audit log stores it."""
    if not isinstance(which, Filter):
        return [str(id) for id in which[:100]]
    given = {name: getattr(which, name) for name in ("queue", "tenant", "workflow", "handler")}
    data: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if which.states:
        data["states"] = sorted(state.value for state in which.states)
    return data if which.query is None else {**data, "query": str(which.query)}
