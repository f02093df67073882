from __future__ import annotations

from datetime import timedelta

import pytest

from windlass.clock import entropy
from windlass.core.lifecycle import State
from windlass.core.submission import draft
from windlass.core.task import NewTask, Unique
from windlass.core.unique import Holder, match


@pytest.mark.parametrize(("key", "created"), [(None, []), ("named", [1])])
def test_a_batch_whose_answer_was_lost_creates_nothing_when_it_is_repeated(key: str | None, created: list[int]) -> None:
    """Its first task may have started in between. One with a key may come from another batch."""
    task = NewTask(handler="work", key=key, unique=Unique(period=timedelta(0)))
    batch = draft([task, NewTask(handler="work", unique=task.unique)], 0, entropy)
    first, second = batch
    assert first.lock is not None
    assert first.lock == second.lock

    found = match(batch, {first.lock: Holder(first.id, 0, State.LEASED)}, {first.id}, now=1)

    assert [*found.takes.values()] == [batch[nth] for nth in created]
    assert found.same == ({} if created else {second.id: first.id})
