"""A store with a secret in every text: no page of `windlass top` has it."""

from __future__ import annotations

import pytest

from tests.operations.secrets import SecretStore, leaks
from windlass.core.query import parse
from windlass.operations.access import Access
from windlass.stores.memory import MemoryStore
from windlass.tui.snapshot import Page, read_snapshot, read_task


@pytest.mark.parametrize("page", Page)
def test_no_page_has_a_secret(page: Page) -> None:
    access = Access(MemoryStore())
    SecretStore(access.store)

    found = read_snapshot(access, page, parse(""))

    assert (found.queues[0].name, found.pools[0].name) == ("default", "mail")
    assert not leaks(found)


def test_no_task_page_has_a_secret() -> None:
    access = Access(MemoryStore())
    planted = SecretStore(access.store)

    found = [read_task(access, id) for id in (planted.failed, planted.done)]

    assert all(found)
    assert not leaks(found)
