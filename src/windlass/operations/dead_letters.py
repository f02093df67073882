"""Dead letters as people see them: bugs first, tasks second. One place for the command line, the API and the dashboard.

A group is every failed task whose last error has one fingerprint. The newest `LOOKED_AT` failed tasks are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import WindlassError
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.redact import redact_error, redact_task
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, TaskReader

LOOKED_AT = 10_000
_PAGE = 500
SHORTEST = 2
"""So many digits of a group's id must be given at the least."""


class UnknownGroup(WindlassError, LookupError):
    """No failed task has an error of this fingerprint, or several groups begin so."""

    code = "unknown_group"


class DeadLetter(Struct, frozen=True):
    """A failed task, and what went wrong in its last attempt."""

    task: Task
    error: Error
    group: str


class Group(Struct, frozen=True, kw_only=True):
    """One bug."""

    id: str
    error: Error
    """The newest of them."""
    letters: Sequence[DeadLetter]
    """The newest first."""

    @property
    def handlers(self) -> list[str]:
        """Where it happens, by name."""
        return sorted({letter.task.handler for letter in self.letters})

    @property
    def tenants(self) -> list[str]:
        """Whom it hurts, by name."""
        return sorted({letter.task.tenant for letter in self.letters})

    @property
    def tasks(self) -> list[TaskId]:
        """Which tasks, the newest first."""
        return [letter.task.id for letter in self.letters]

    @property
    def first(self) -> Micros:
        """When it was seen first."""
        return min(letter.task.finished or 0 for letter in self.letters)

    @property
    def last(self) -> Micros:
        """When it was seen last."""
        return max(letter.task.finished or 0 for letter in self.letters)


def groups(
    store: TaskReader,
    filter: Filter | None = None,
    *,
    limit: int = LOOKED_AT,
    advance: Callable[[int], object] = lambda _: None,
) -> list[Group]:
    """Every bug among the newest failed tasks, the most frequent first. `advance` is told how many were looked at."""
    found: dict[str, list[DeadLetter]] = {}
    for task in _failed(store, filter or Filter(), limit):
        error = last_error(store, task)
        found.setdefault(fingerprint(error), []).append(DeadLetter(task, error, fingerprint(error)))
        advance(1)
    made = [Group(id=id, error=letters[0].error, letters=letters) for id, letters in found.items()]
    return sorted(made, key=lambda group: (-len(group.letters), group.id))


def group(store: TaskReader, id: str, filter: Filter | None = None, *, limit: int = LOOKED_AT) -> Group:
    """One of them by its id, or by the beginning of it."""
    there = groups(store, filter, limit=limit)
    fitting = [each for each in there if len(id) >= SHORTEST and each.id.startswith(id.lower())]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(each.id for each in fitting or there[:20]) or "none: nothing is failed"
    raise UnknownGroup(f"group={id!r} names {len(fitting) or 'no'} group{'s' * (len(fitting) > 1)}; there are {names}")


def get_all(
    access: Access,
    filter: Filter | None = None,
    *,
    limit: int = LOOKED_AT,
    advance: Callable[[int], object] = lambda _: None,
) -> list[Group]:
    """Return the bugs among the newest failed tasks, the most frequent first."""
    narrowed = access.narrow(filter or Filter())
    if narrowed is None:
        return []
    found = groups(access.store, narrowed, limit=limit, advance=advance)
    return [_redact(each, access.catalog) for each in found]


def get(access: Access, id: str, *, limit: int = LOOKED_AT) -> Group:
    """Return one bug by its id, or by at least two digits from the beginning of the id."""
    return _redact(group(access.store, id, access.narrow(Filter()), limit=limit), access.catalog)


def retry(access: Access, group: Group, author: Author) -> int:
    """Retry every task of a group. Return how many were retried."""
    return access.store.retry(group.tasks, entries=[entry(group, "retried", f"retried {group.id}", author)])


def drop(access: Access, group: Group, author: Author) -> int:
    """Remove every task of a group for good. Return how many were removed."""
    return access.store.purge(group.tasks, entries=[entry(group, "dropped", f"dropped {group.id}", author)])


def entry(group: Group, action: str, text: str, author: Author) -> Entry:
    """Return the audit entry of an action on a group."""
    number = len(group.letters)
    return author.entry(f"dead/{group.id}", action, f"{text}, {number:,} task{'s' * (number != 1)}")


def last_error(store: TaskReader, task: Task, after: int = 0) -> Error:
    """What went wrong in the latest attempt, of those with a fence greater than `after`."""
    errors = [attempt.error for attempt in store.attempts(task.id) if attempt.error and attempt.fence > after]
    # A ring of prerequisites, or a stop by its node, ends a task without an error of its own.
    return errors[-1] if errors else Error(kind="Ended", message=task.reason or "")


def _failed(store: TaskReader, filter: Filter, limit: int) -> Iterable[Task]:
    wanted, after, left = replace(filter, states=frozenset({State.FAILED})), None, limit
    while left > 0:
        page = store.find(wanted, limit=min(_PAGE, left), after=after)
        yield from page.tasks
        left, after = left - len(page.tasks), page.after
        if after is None:
            return


def _redact(group: Group, catalog: HandlerCatalog) -> Group:
    letters = [
        DeadLetter(redact_task(letter.task, catalog), redact_error(letter.error), letter.group)
        for letter in group.letters
    ]
    return replace(group, error=redact_error(group.error), letters=letters)
