"""What a claimer can run, and the rule that decides whether a task is part of it.

Tasks with the same handler, slots, memory, labels and downstream are of one kind. Stores keep the number of its kind
with each task, so a claim skips any number of tasks of kinds that the claimer does not serve without reading them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256

import msgspec
from msgspec import Struct

from windlass.core.task import Rules


class Serves(Struct, frozen=True, kw_only=True):
    """What a claimer can run. None means no restriction."""

    handlers: frozenset[str] | None = None
    labels: frozenset[str] | None = None
    """The labels that tasks may require."""
    slots: int | None = None
    """The most slots that a task may need."""
    memory: int | None = None
    """The most bytes of memory that a task may need."""
    shut: frozenset[str] = frozenset()
    """Downstreams whose tasks are skipped."""
    only: str | None = None
    """If set, only tasks of this downstream."""

    def can_run(self, handler: str, rules: Rules) -> bool:
        """Return True if the claimer can run a task with this handler and these rules."""
        return (
            not self.lacks(handler, rules)
            and rules.downstream not in self.shut
            and self.only in (None, rules.downstream)
        )

    def lacks(self, handler: str, rules: Rules) -> str:
        """Return a text that says what the claimer lacks to run such a task; empty if nothing."""
        if self.handlers is not None and handler not in self.handlers:
            return f"does not know the handler {handler}"
        missing = missing_labels(rules, self.labels)
        if missing:
            return f"lacks the tag {', '.join(missing)}"
        if self.slots is not None and self.slots < rules.slots:
            slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
            return f"has {slots} per worker and the task needs {rules.slots}"
        if self.memory is not None and self.memory < (rules.memory or 0):
            return f"has {self.memory:,} bytes of memory for tasks and the task needs {rules.memory:,}"
        return ""


EVERYTHING = Serves()


def missing_labels(rules: Rules, labels: Collection[str] | None) -> list[str]:
    """Return the labels that a task requires and that are missing."""
    return [] if labels is None or not rules.requires else sorted({*rules.requires}.difference(labels))


def kind_of(handler: str, rules: Rules) -> int:
    """Return the number of a task's kind: 63 bits that depend only on what `Serves.can_run` looks at."""
    return _kind(handler, rules.slots, tuple(rules.requires), rules.downstream, rules.memory)


@lru_cache(maxsize=10_000)
def _kind(handler: str, slots: int, requires: tuple[str, ...], downstream: str | None, memory: int | None) -> int:
    # Tasks without memory keep the numbers that they had before there was any: stored tasks have theirs.
    needs = [handler, slots, sorted({*requires}), downstream, *(() if memory is None else (memory,))]
    text = msgspec.json.encode(needs)
    return int.from_bytes(sha256(text).digest()[:8], "big") >> 1
