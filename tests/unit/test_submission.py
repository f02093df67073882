from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import an_id
from windlass.core.admission import in_scope
from windlass.core.graph import End
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import INITIAL_STATES, State
from windlass.core.ordering import Queue, place
from windlass.core.retry import ErrorRule, Retry
from windlass.core.submission import (
    MAX_BATCH,
    decode_rules,
    draft,
    encode_rules,
    initial_state,
)
from windlass.core.task import NewTask, OnFailure, Rules
from windlass.core.times import micros
from windlass.errors import CycleFound, InvalidTask

NOW = 10**15
SECOND = timedelta(seconds=1)
PLAIN = Queue(name="default")
times = st.none() | st.timedeltas(-SECOND, SECOND)
ends = st.dictionaries(st.integers(0, 3), st.sampled_from([End.COMPLETED, End.FAILED, End.CANCELLED, End.EXPIRED]))


def drafted(**fields: Any) -> Any:
    [one] = draft([NewTask(handler="work", **fields)], NOW, lambda _: lambda: 7)
    return one


@given(
    delay=times,
    expires=times,
    parents=st.sets(st.integers(0, 3)),
    ended=ends,
    policy=st.sampled_from(OnFailure),
    seal=st.booleans(),
    nth=st.integers(0, 9),
)
def test_the_first_state_follows_from_the_times_and_prerequisites(
    delay: timedelta | None,
    expires: timedelta | None,
    parents: set[int],
    ended: dict[int, End],
    policy: OnFailure,
    seal: bool,
    nth: int,
) -> None:
    one = drafted(delay=delay, expires=expires, prerequisites=[an_id(n) for n in parents], on_failure=policy)
    over = {an_id(n): end for n, end in ended.items() if n in parents}

    initial = initial_state(one, PLAIN, NOW, nth, over, [an_id(99)] if seal else [])

    task = initial.task
    bad = [end for end in over.values() if not end.good]
    waiting = len(parents) - len(over) + seal
    late = delay is not None and delay > timedelta(0)
    assert task.state in INITIAL_STATES
    assert task.waiting == waiting == sum(not resolved for _, resolved in initial.edges)
    if bad and policy is OnFailure.CANCEL:
        assert task.state is State.CANCELLED
    elif expires is not None and expires <= timedelta(0):
        assert task.state is State.EXPIRED
    elif waiting:
        assert task.state is State.WAITING
    else:
        assert task.state is (State.SCHEDULED if late else State.RUNNABLE)
    assert (task.finished is not None) == task.state.final == (task.reason is not None)
    assert task.due == NOW + nth + (micros(delay) if late and delay is not None else 0)
    assert initial.place == place(PLAIN, priority=0, deadline=None, due=task.due)


def test_a_batch_that_is_too_large_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidTask, match="Submit in parts"):
        draft([NewTask(handler="work")] * (MAX_BATCH + 1), NOW, lambda _: lambda: 7)


def test_keys_of_one_workflow_may_name_each_other_in_any_order() -> None:
    child, parent = draft(
        [
            NewTask(handler="work", key="child", workflow="w", prerequisites=["parent", "parent"]),
            NewTask(handler="work", key="parent", workflow="w"),
        ],
        NOW,
        lambda _: lambda: 7,
    )

    assert child.prerequisites == (parent.id,)
    assert parent.id == keyed_id("default", "w", "parent")


def test_a_cycle_in_a_batch_is_refused_before_any_store_is_asked() -> None:
    cycle = [NewTask(handler="work", key=key, prerequisites=[above]) for key, above in ("ab", "bc", "ca")]

    with pytest.raises(CycleFound):
        draft(cycle, NOW, lambda _: lambda: 7)


@given(args=st.dictionaries(st.text("abc", min_size=1), st.integers(0, 9), min_size=1, max_size=3))
def test_the_fingerprint_is_that_of_the_body_alone(args: dict[str, int]) -> None:
    plain = drafted(key="k", args=args).fingerprint

    assert plain == drafted(key="other", args=dict(reversed(args.items())), priority=5, deadline=SECOND).fingerprint
    assert plain != drafted(key="k", args={**args, "more": 1}).fingerprint
    assert plain != drafted(key="k", args=args, queue="mail").fingerprint
    assert plain != drafted(key="k", args=args, prerequisites=["p"]).fingerprint
    assert drafted(args=args).fingerprint is None


@pytest.mark.parametrize(
    ("mine", "theirs", "allowed"),
    [
        (("t", "w"), ("t", "w"), True),
        (("t", "w"), ("t", None), True),
        (("t", None), ("t", None), True),
        (("t", None), ("t", "w"), False),
        (("t", "w"), ("t", "v"), False),
        (("t", "w"), ("u", "w"), False),
        (("t", None), ("u", None), False),
    ],
)
def test_a_task_waits_for_its_own_workflow_or_for_one_that_stands_alone(
    mine: tuple[str, str | None], theirs: tuple[str, str | None], allowed: bool
) -> None:
    assert (
        in_scope(*(NewTask(handler="work", tenant=tenant, workflow=name) for tenant, name in (mine, theirs))) is allowed
    )


@pytest.mark.parametrize(
    "rules",
    [
        Rules(),
        Rules(retry=Retry(retries=0)),
        Rules(timeout=SECOND, soft_timeout=SECOND / 2, heartbeat_timeout=timedelta(days=1, microseconds=1)),
        Rules(
            retry=Retry(base=timedelta(0), cap=SECOND, rules=(ErrorRule(error="K*", retries=0, base=SECOND),)),
            slots=9,
            requires=("gpu", "disk"),
            downstream="smtp",
            trace="00-abc",
        ),
    ],
    ids=repr,
)
def test_rules_come_back_as_they_were_and_the_defaults_cost_nothing(rules: Rules) -> None:
    assert decode_rules(encode_rules(rules)) == rules
    assert (encode_rules(rules) is None) == (rules == Rules())
