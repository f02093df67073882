"""Shares of fair queues: what tenants should get and what they got."""

from __future__ import annotations

import pytest

from windlass.core.shares import Share, Used, compute_shares

WEIGHTS = {"a": 1, "b": 3}


def weight(tenant: str) -> int:
    return WEIGHTS.get(tenant, 1)


def test_weights_divide_what_is_due_and_run_time_what_was_got() -> None:
    found = compute_shares([Used("a", 30, 1), Used("b", 10, 1)], {"a", "b"}, weight)

    assert found == {"a": Share(due=0.25, got=0.75), "b": Share(due=0.75, got=0.25)}
    assert (found["a"].borrowed, found["a"].missing) == (0.5, 0.0)
    assert (found["b"].borrowed, found["b"].missing) == (0.0, 0.5)


def test_a_tenant_that_wants_nothing_leaves_its_share_to_others() -> None:
    found = compute_shares([Used("a", 30, 1), Used("b", 0, 1)], {"a"}, weight)

    assert found == {"a": Share(due=1.0, got=1.0), "b": Share(due=0.0, got=0.0)}


def test_recent_use_counts_like_tasks_to_run() -> None:
    assert compute_shares([Used("a", 4, 1), Used("b", 4, 10)], {"a"}, weight)["a"].due == 0.25


def test_use_that_has_faded_does_not_count() -> None:
    found = compute_shares([Used("a", 4, 1), Used("b", 3, 10)], {"a"}, weight)

    assert found["a"].due == 1.0
    assert found["b"].due == 0.0


def test_a_tenant_without_an_account_has_got_nothing() -> None:
    assert compute_shares([Used("a", 4, 1)], {"a", "b"}, weight)["b"] == Share(due=0.75, got=0.0)


def test_without_run_time_nothing_was_got_or_borrowed() -> None:
    share = compute_shares([], {"a"}, weight)["a"]

    assert share == Share(due=1.0, got=None)
    assert (share.borrowed, share.missing) == (None, 0.0)


def test_what_is_due_adds_up_to_one() -> None:
    found = compute_shares([Used(f"t{n}", n, 1) for n in range(50)], {"a", "b"}, weight)

    assert sum(share.due for share in found.values()) == pytest.approx(1)
    assert sum(share.got or 0 for share in found.values()) == pytest.approx(1)
