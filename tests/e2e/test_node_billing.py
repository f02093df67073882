"""Exactly once: rows that commit together with the completion of a task exist once, whatever happens to its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, read_effects, stopped
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
SHORT = ("--session-ttl", "2s")


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def invoices(url: str) -> Iterator[psycopg.Connection]:
    """Connect to the invoices, which are in the database of the store and have no unique constraint."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE invoice (task uuid NOT NULL)")
        yield connection


def test_no_customer_is_billed_twice(
    node: Callable[..., NodeProcess], effects: Path, invoices: psycopg.Connection, url: str
) -> None:
    first = node("-n", "1", *SHORT, INVOICES_URL=url)
    zombie = shop.bill.using(key="zombie").enqueue("zombie")
    [inserted] = await_effect(effects, "inserted")

    with stopped(first.pid):
        with stopped(inserted["pid"]):
            node("-n", "2", *SHORT, INVOICES_URL=url)
            assert zombie.wait(PATIENCE) is State.COMPLETED
            effects.with_name("gate").touch()
        [refused] = await_effect(effects, "refused")  # The zombie woke up and tried to commit.
        crashed = [shop.bill.enqueue("crash before the commit"), shop.bill.enqueue("crash after the commit")]
        well = [shop.bill.enqueue("none") for _ in range(5)]
        again = shop.bill.using(key="zombie").enqueue("zombie")
        handles = [zombie, *crashed, *well]
        assert [handle.wait(PATIENCE) for handle in handles] == [State.COMPLETED] * 8

    assert again.id == zombie.id
    assert (refused["task"], refused["pid"]) == (str(zombie.id), inserted["pid"])
    first.await_event("SessionEnded")
    assert first.terminate() == 0
    billed = [task for (task,) in invoices.execute("SELECT task FROM invoice").fetchall()]
    assert sorted(billed) == sorted(handle.id for handle in handles)
    begun = [each["task"] for each in read_effects(effects, "inserted")]
    assert [begun.count(str(handle.id)) for handle in (zombie, *crashed)] == [2, 2, 1]
    ends = [[end.state for end in shop.app.store.attempts(handle.id)].count(State.COMPLETED) for handle in handles]
    assert ends == [1] * 8
