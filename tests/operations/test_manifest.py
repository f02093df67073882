"""Publishing handlers by hand or over HTTP."""

from __future__ import annotations

import pytest

from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.operations import manifest
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore

MAIL = Manifest(handlers=(HandlerInfo(name="mail"),))
ANN = Author("ann")


def test_publishing_the_same_handlers_again_writes_no_entry() -> None:
    store = MemoryStore()

    first, again = manifest.publish(Access(store), MAIL, ANN), manifest.publish(Access(store), MAIL, ANN)

    assert (first, again) == (["mail"], [])
    assert [entry.text for entry in store.audit()] == ["published mail"]


def test_a_handler_that_another_node_changes_meanwhile_has_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.publish(MAIL)
    read = store.handlers

    def overtaken() -> list[HandlerSeen]:
        found = read()
        store.publish(Manifest(handlers=(HandlerInfo(name="mail", queue="post"),)))
        return found

    monkeypatch.setattr(store, "handlers", overtaken)
    manifest.publish(Access(store), MAIL, ANN)

    assert [entry.text for entry in store.audit()] == ["published mail"]
