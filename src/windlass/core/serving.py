"""What a claimer can run, and the one rule that says whether a task is among it. Pure.

Tasks that need the same are of one kind: the same handler, slots, labels and downstream. A kind has a number, made from
these alone, that stores keep with each task: so a claim passes over any number of tasks of kinds that the claimer does
not serve without reading them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256

import msgspec
from msgspec import Struct

from windlass.core.task import Rules


class Serves(Struct, frozen=True, kw_only=True):
    """What a claimer can run. None, for what it does not say, holds nothing back."""

    handlers: frozenset[str] | None = None
    labels: frozenset[str] | None = None
    """What tasks may require."""
    slots: int | None = None
    """The most slots that a task may need."""
    shut: frozenset[str] = frozenset()
    """Downstreams whose tasks are left alone."""
    only: str | None = None
    """Nothing but tasks of this downstream."""

    def can_run(self, handler: str, rules: Rules) -> bool:
        """Whether a task of this handler, with these rules, may be given to the claimer."""
        return (
            not self.lacks(handler, rules)
            and rules.downstream not in self.shut
            and self.only in (None, rules.downstream)
        )

    def lacks(self, handler: str, rules: Rules) -> str:
        """What the claimer does not have that such a task needs, in words; empty if it has everything."""
        if self.handlers is not None and handler not in self.handlers:
            return f"does not know the handler {handler}"
        missing = missing_labels(rules, self.labels)
        if missing:
            return f"lacks the tag {', '.join(missing)}"
        if self.slots is not None and self.slots < rules.slots:
            return f"has {self.slots} slot(s) a worker, and it needs {rules.slots}"
        return ""


EVERYTHING = Serves()


def missing_labels(rules: Rules, labels: Collection[str] | None) -> list[str]:
    """The labels that a task requires and that are not there."""
    return [] if labels is None or not rules.requires else sorted({*rules.requires}.difference(labels))


def kind_of(handler: str, rules: Rules) -> int:
    """The number of a task's kind: 63 bits that depend on nothing but what the rule above looks at."""
    return _kind(handler, rules.slots, tuple(rules.requires), rules.downstream)


@lru_cache(maxsize=10_000)
def _kind(handler: str, slots: int, requires: tuple[str, ...], downstream: str | None) -> int:
    text = msgspec.json.encode([handler, slots, sorted({*requires}), downstream])
    return int.from_bytes(sha256(text).digest()[:8], "big") >> 1
