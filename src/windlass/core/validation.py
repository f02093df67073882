"""Checks of what callers pass: every field of a task, and task ids.

`check_task` decides whether a `NewTask` is valid; the Python API, HTTP, the CLI and every store use it. A value of the
wrong type never reaches a store: the caller gets `InvalidTask` with the field, the value, and what to pass instead. It
runs for every submitted task, so the common case is a few type checks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from msgspec.structs import replace

from windlass.core.limits import MAX_KEY, check_amounts
from windlass.core.names import check_name, check_text, check_type, is_name, shorten
from windlass.core.retry import Retry
from windlass.core.task import Change, NewTask, OnFailure, Origin, Unique
from windlass.core.times import LONGEST, Micros, when
from windlass.core.waits import check_wait
from windlass.errors import InvalidPayload, InvalidTask

MAX_PRIORITY = 1_000_000
MAX_LABELS = 100
MAX_SLOTS = 1_000
MAX_CRASHES = 1_000
MAX_MEMORY = 2**50
DEFAULT_RETRY = NewTask().retry
_TEXTS = ("handler", "queue", "tenant", "key", "workflow", "downstream", "limit", "trace")
_LIMITS = ("timeout", "soft_timeout", "heartbeat_timeout")


def check_batch(tasks: object) -> None:
    """Raise `InvalidTask` unless the value is a sequence of tasks."""
    if type(tasks) is not list and type(tasks) is not tuple:
        check_type("tasks", tasks, Sequence, "pass a list of NewTask")


def check_task(new: NewTask, now: Micros = 0) -> NewTask:
    """Return the task with every field checked and of its plain type, or raise `InvalidTask`.

    Returns `new` itself unless a field was given in an equivalent form, such as a list of labels.
    """
    if type(new) is not NewTask:
        check_type("task", new, NewTask, "pass a NewTask, as in NewTask(handler=...)")
    if type(new.handler) is not str or type(new.queue) is not str or type(new.tenant) is not str:
        new = _with_plain_texts(_check_names(new))
    elif not (is_name(new.handler) and is_name(new.queue) and is_name(new.tenant)):
        _check_names(new)
    args: Any = new.args
    if type(args) is not dict and not isinstance(args, Mapping):
        raise InvalidPayload(f"args={shorten(args)} is not a dict. Pass arguments by name, as in {{'n': 1}}.")
    if new.key is not None or new.workflow is not None or new.id is not None:
        new = _check_identity(new)
    check_priority(new.priority)
    if type(new.slots) is not int or not 1 <= new.slots <= MAX_SLOTS:
        raise InvalidTask(f"slots={shorten(new.slots)} is not an integer from 1 to {MAX_SLOTS}")
    if type(new.on_failure) is not OnFailure:
        new = replace(new, on_failure=_policy(new.on_failure))
    if new.prerequisites or type(new.prerequisites) is not tuple:
        new = _check_prerequisites(new)
    if new.deadline is not None or new.delay is not None or new.at is not None or new.expires is not None:
        _check_times(new, now)
    if new.unique is not None:
        _check_unique(new, new.unique)
    if new.admit is not None:
        _check_admit(new.admit)
    if new.wait is not None:
        check_wait(new)
    if new.raise_prerequisites is not True:
        check_flag("raise_prerequisites", new.raise_prerequisites)
    return new if has_default_rules(new) else _check_rules(new)


def has_default_rules(new: NewTask) -> bool:
    """Return True if the task has only default rules, as most tasks do: then no rules are stored."""
    return (
        new.retry is DEFAULT_RETRY
        and new.max_crashes is None
        and new.at_most_once is False
        and new.timeout is None
        and new.soft_timeout is None
        and new.heartbeat_timeout is None
        and new.slots == 1
        and new.memory is None
        and type(new.requires) is tuple
        and not new.requires
        and new.downstream is None
        and new.limit is None
        and new.max_running is None
        and new.rate is None
        and new.trace is None
        and new.origin is None
    )


def check_priority(priority: object) -> None:
    """Raise `InvalidTask` unless the priority is an integer in range."""
    if type(priority) is not int or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidTask(f"priority={shorten(priority)} is not an integer from -{MAX_PRIORITY:,} to {MAX_PRIORITY:,}")


def check_labels(labels: object) -> tuple[str, ...]:
    """Return the labels that a task requires of a worker. A string is refused: it would be split into letters."""
    found = _as_tuple("requires", labels, "pass a list of labels, as in ['gpu']")
    if len(found) > MAX_LABELS:
        raise InvalidTask(f"requires: {len(found):,} labels; at most {MAX_LABELS} are allowed")
    for label in found:
        check_name("requires", label)
    return tuple(map(_plain_text, found))


def check_once(retry: Retry) -> None:
    """Raise `InvalidTask` for retries of a task that must run at most once."""
    retry.check()
    most = max(retry.retries, *(rule.retries or 0 for rule in retry.rules), 0)
    if most:
        raise InvalidTask(f"retries={most} and at_most_once=True contradict each other. Leave out one of them.")


def check_ids(ids: object, field: str = "tasks") -> None:
    """Raise `InvalidTask` unless the value is a collection of task ids. A single id or text is refused."""
    if type(ids) is not list and type(ids) is not tuple:
        check_type(field, ids, Collection, "pass a list of task ids (UUID)")
    for id in cast("Collection[object]", ids):
        check_id(id, field)


def check_id(id: object, field: str = "task") -> None:
    """Raise `InvalidTask` unless the value is a task id."""
    check_type(field, id, UUID, "pass a task id (UUID)")


def check_change(change: object) -> None:
    """Raise `InvalidTask` unless the value is a `Change`. Its fields are checked when it is applied."""
    check_type("change", change, Change, "pass a Change")


def check_flag(field: str, value: object) -> None:
    """Raise `InvalidTask` unless the value is True or False. Text such as 'no' would count as True."""
    check_type(field, value, bool, "use True or False")


def _check_names(new: NewTask) -> NewTask:
    for field in ("handler", "queue", "tenant"):
        check_name(field, getattr(new, field))
    return new


def _with_plain_texts(new: NewTask) -> NewTask:
    """Return the task with values of subclasses of str, such as enum members, replaced by plain str.

    Drivers and formatting treat subclasses differently: one would store the value, another the member's name.
    """
    texts = {field: getattr(new, field) for field in _TEXTS}
    return replace(new, **{field: _plain_text(text) for field, text in texts.items() if isinstance(text, str)})


def _plain_text(text: str) -> str:
    return text if type(text) is str else str.__str__(text)


def _check_identity(new: NewTask) -> NewTask:
    if new.id is not None:
        # Only version 7: it is unique, and cannot be mistaken for the id of a key (version 8).
        if not isinstance(new.id, UUID) or new.id.version != 7:
            raise InvalidTask(f"id={shorten(new.id)} is not a version 7 UUID. Leave it out, or pass key= instead.")
        if new.key is not None:
            raise InvalidTask(f"id={shorten(new.id)} and key={shorten(new.key)} are both given. Pass only one of them.")
    if new.key is not None:
        check_text("key", new.key)
    if new.workflow is not None:
        check_text("workflow", new.workflow)
    plain = (str, type(None))
    return new if type(new.key) in plain and type(new.workflow) in plain else _with_plain_texts(new)


def _policy(policy: object) -> OnFailure:
    if not isinstance(policy, str) or policy not in tuple(OnFailure):
        raise InvalidTask(f"on_failure={shorten(policy)} is unknown. Use 'cancel' or 'run'.")
    return OnFailure(policy)


def _check_prerequisites(new: NewTask) -> NewTask:
    """Return the prerequisites. Only collections that can be read twice are accepted: a submit may be retried."""
    right = "pass a list of keys and task ids (UUID)"
    given: Any = new.prerequisites
    plain = type(given) in (tuple, list)
    found = cast("Sequence[object]", given) if plain else _as_tuple("prerequisites", given, right)
    for name in found:
        if type(name) is not UUID:
            check_type("prerequisites", name, (str, UUID), right)
            if not isinstance(name, UUID):
                check_text("prerequisites", name)
    return new if plain else replace(new, prerequisites=found)


def _check_times(new: NewTask, now: Micros) -> None:
    if new.delay is not None:
        check_type("delay", new.delay, timedelta, "pass a timedelta")
        if new.at is not None:
            raise InvalidTask("delay and at are both given. Pass only one of them.")
    for field in ("delay", "at", "deadline", "expires"):
        when(getattr(new, field), now, field)


def _check_rules(new: NewTask) -> NewTask:
    check_type("retry", new.retry, Retry, "pass Retry(retries=...)")
    new.retry.check()
    _check_crashes(new.max_crashes, new.at_most_once)
    if new.at_most_once and new.retry != DEFAULT_RETRY:
        check_once(new.retry)
    for field in _LIMITS:
        limit: object = getattr(new, field)
        if limit is not None and not (isinstance(limit, timedelta) and timedelta(0) < limit <= LONGEST):
            raise InvalidTask(
                f"{field}={shorten(limit)} is not a time limit. Pass a timedelta above zero, at most ten years."
            )
    requires = check_labels(new.requires)
    if new.downstream is not None:
        check_name("downstream", new.downstream)
    if new.memory is not None and (type(new.memory) is not int or not 1 <= new.memory <= MAX_MEMORY):
        raise InvalidTask(f"memory={shorten(new.memory)} is not a number of bytes from 1 to {MAX_MEMORY:,}")
    if new.limit is not None:
        check_text("limit", new.limit, MAX_KEY)
        check_amounts(f"limit {new.limit!r}: ", new.max_running, new.rate)
    elif new.max_running is not None or new.rate is not None:
        raise InvalidTask("max_running and rate need a key to count by. Pass limit= too, as in limit='customer:42'.")
    if new.trace is not None:
        check_text("trace", new.trace)
    if new.origin is not None:
        check_type("origin", new.origin, Origin, "leave it out; stores set it")
    return _with_plain_texts(replace(new, requires=requires))


def _check_unique(new: NewTask, unique: Unique) -> None:
    check_type("unique", unique, Unique, "pass unique_for=, or Unique(...) in a NewTask")
    if unique.key is not None:
        check_text("unique_key", unique.key, MAX_KEY)
    _check_length("unique_for", unique.period, zero=True)
    check_flag("replace_args", unique.replace_args)
    if new.workflow is not None:
        raise InvalidTask(
            f"workflow={shorten(new.workflow)} and unique_for are both given. Every step of a workflow is a task of "
            "its own: pass unique_for=None."
        )
    if unique.debounce is None:
        if unique.max_wait is not None or unique.replace_args:
            given = "max_wait" if unique.max_wait is not None else "replace_args"
            raise InvalidTask(f"{given} has no effect without debounce. Pass debounce= too.")
        return
    _check_length("debounce", unique.debounce)
    if new.delay is not None or new.at is not None:
        raise InvalidTask("debounce, delay and at all say when the task starts. Pass only one of them.")
    if unique.max_wait is not None:
        _check_length("max_wait", unique.max_wait)
        if unique.max_wait < unique.debounce:
            raise InvalidTask(f"max_wait={unique.max_wait} is shorter than debounce={unique.debounce}.")


def _check_length(field: str, length: object, *, zero: bool = False) -> None:
    if not isinstance(length, timedelta) or not (timedelta(0) <= length <= LONGEST) or not (length or zero):
        least = "zero" if zero else "above zero"
        raise InvalidTask(f"{field}={shorten(length)} is not a duration. Pass a timedelta, {least}, at most ten years.")


def _check_admit(admit: object) -> None:
    if type(admit) is not str or admit != "strict":
        raise InvalidTask(f"admit={shorten(admit)} is unknown. Use 'strict', or leave it out.")


def _check_crashes(most: object, once: object) -> None:
    check_flag("at_most_once", once)
    if most is not None and (type(most) is not int or not 0 <= most <= MAX_CRASHES):
        raise InvalidTask(f"max_crashes={shorten(most)} is not an integer from 0 to {MAX_CRASHES:,}")
    if once and most:
        raise InvalidTask(f"max_crashes={most} and at_most_once=True contradict each other. Leave out one of them.")


def _as_tuple(field: str, values: object, right: str) -> tuple[Any, ...]:
    """Return the members of a list, tuple or set as a tuple. A set is sorted."""
    check_type(field, values, (list, tuple, set, frozenset), right)
    members = cast("Collection[object]", values)
    return tuple(members) if isinstance(members, Sequence) else tuple(sorted(members, key=str))
