"""Which tasks a command means: ids, options such as --queue, or the filter language.

Nothing here ever means all tasks by mistake. To look at a task, a part of its id is enough; to change one, it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import click
from msgspec import Struct
from msgspec.structs import replace

from windlass.cli.completion import complete_handler, complete_queue
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import Task, TaskId
from windlass.errors import InvalidTask, UnknownTask
from windlass.stores.protocol import Filter, Selection, TaskReader

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_CONDITION = re.compile(r"-?[a-z][\w.]*(?:[:~=]|[<>]=?)")
_ABBREVIATED = re.compile(r"(?=(?:-?[0-9a-fA-F]){8})[0-9a-fA-F-]+")
_SHIELD = "\0"


class Filtered(click.Command):
    """A command that takes words of a filter: one that begins with a minus excludes, and is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        shielded = [_SHIELD + word if word[:1] == "-" and _CONDITION.match(word) else word for word in args]
        return super().parse_args(ctx, shielded)


def _unshielded(_context: click.Context, _parameter: click.Parameter, words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.removeprefix(_SHIELD) for word in words)


def words_argument(name: str) -> Callable[[Decorated], Decorated]:
    """Any number of words, as `words`."""
    return click.argument("words", nargs=-1, metavar=name, callback=_unshielded)


class TaskSelection(Struct, frozen=True, kw_only=True):
    """What the options say."""

    states: tuple[str, ...] = ()
    queue: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    handler: str | None = None

    def filter(self, words: Sequence[str] = ()) -> Filter:
        """The same as a store takes it, with the words of a filter."""
        return Filter(
            states=frozenset(map(State, self.states)),
            queue=self.queue,
            tenant=self.tenant,
            workflow=self.workflow,
            handler=self.handler,
            query=parse(" ".join(words)) if words else None,
        )

    def which(self, words: Sequence[str]) -> Selection:
        """Tasks by id or by filter, never all of them by mistake."""
        if words and not any(_CONDITION.match(word) for word in " ".join(words).split()):
            if self != TaskSelection():
                raise InvalidTask("tasks: give ids or a filter, not both")
            return [id_of(word) for word in words]
        found = self.filter(words)
        if found == Filter():
            raise InvalidTask("tasks: name some ids, or a filter such as --queue mail or state:failed")
        return found


def filter_options(command: Decorated) -> Decorated:
    """`--state`, `--queue`, `--tenant`, `--workflow` and `--handler`, as `chosen`."""

    def run(*args: Any, **options: Any) -> Any:
        chosen = TaskSelection(**{field: options.pop(field) for field in TaskSelection.__struct_fields__})
        return command(*args, chosen=chosen, **options)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__click_params__ = list(getattr(command, "__click_params__", ()))  # pyright: ignore[reportFunctionMemberAccess]
    found: Any = run
    for name, complete in (
        ("--handler", complete_handler),
        ("--workflow", None),
        ("--tenant", None),
        ("--queue", complete_queue),
    ):
        found = click.option(name, shell_complete=complete)(found)
    return click.option("--state", "states", multiple=True, type=click.Choice([each.value for each in State]))(found)


def narrowed(filter: Filter, states: Sequence[State]) -> Filter | None:
    """Only those in some states; None when there can be none."""
    left = frozenset(states) & filter.states if filter.states else frozenset(states)
    return replace(filter, states=left) if left else None


def task_of(store: TaskReader, id: str) -> Task:
    """The task with this id; for looking at it, eight digits from its beginning or its end will do."""
    if _ABBREVIATED.fullmatch(id) and not _is_whole(id):
        return _found(store, id)
    [task] = store.get([id_of(id)])
    if task is None:
        raise UnknownTask(id)
    return task


def _found(store: TaskReader, part: str) -> Task:
    """One bounded look among the newest tasks: what is older has to be named in full."""
    tasks = store.find(Filter(query=parse(f"id:{part}*,*{part}")), limit=2).tasks
    if len(tasks) == 1:
        return tasks[0]
    if not tasks:
        raise UnknownTask(f"{part}… among the newest; give the whole id")
    raise InvalidTask(f"id={part!r} is a part of several ids, as of {tasks[0].id} and {tasks[1].id}; give more of it")


def _is_whole(id: str) -> bool:
    return len(id.replace("-", "")) == 32


def id_of(text: str) -> TaskId:
    """A task's id as people write it."""
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise InvalidTask(f"id={text!r} is not a task id; `windlass tasks ls` shows them") from None
