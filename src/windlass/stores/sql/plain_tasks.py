"""Plain tasks, which most calls of `enqueue` submit, and which a store can write without looking at anything else.

They have no key, prerequisites, workflow or times, are neither unique nor waits, and their queues have the default
order and no limit. The tasks of a batch usually differ only in their ids and arguments, so the rest is passed once for
all that have it in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.core.ordering import Queue, place
from windlass.core.serving import kind_of
from windlass.core.submission import Draft, encode_rules
from windlass.core.task import TaskId
from windlass.core.validation import has_default_rules


class Common(NamedTuple):
    """What some tasks of a batch have in common."""

    queue: str
    tenant: str
    band: int
    rank: int
    """The first two parts of the place; the third is the due time."""
    on_failure: str
    handler: str
    rules: str | None
    priority: int
    kind: int


def is_plain(one: Draft) -> bool:
    """Return True if a task is plain, as far as it says itself; the store knows its queue."""
    new = one.new
    return (
        new.key is None
        and not one.prerequisites
        and new.workflow is None
        and new.deadline is None
        and new.delay is None
        and new.at is None
        and new.expires is None
        and new.unique is None
        and new.wait is None
    )


def split_batch(drafts: Sequence[Draft]) -> tuple[list[Common], list[tuple[TaskId, str, int]]]:
    """Return what tasks have in common, and each task's id, arguments and position in that list."""
    parts: dict[object, int] = {}
    common: list[Common] = []
    tasks: list[tuple[TaskId, str, int]] = []
    for one in drafts:
        new = one.new
        rules = None if has_default_rules(new) else one.rules
        key = new.handler, new.queue, new.tenant, new.priority, new.on_failure, rules
        part = parts.get(key)
        if part is None:
            part = parts[key] = len(common)
            common.append(_common(one))
        tasks.append((one.id, one.args, part))
    return common, tasks


def _common(one: Draft) -> Common:
    new, rules = one.new, one.rules
    band, rank, _ = place(Queue(name=new.queue), priority=new.priority, deadline=None, due=0)
    kind = kind_of(new.handler, rules)
    return Common(
        new.queue,
        new.tenant,
        band,
        rank,
        new.on_failure.value,
        new.handler,
        encode_rules(rules),
        new.priority,
        kind,
    )
