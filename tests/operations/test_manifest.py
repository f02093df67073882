"""Publishing handlers by hand or over HTTP."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.errors import InvalidTask, Refused
from windlass.operations import manifest, tasks
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.redaction import Secret
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


class Tree(Struct):
    name: Secret[str]
    below: list[Tree] = []
    by_name: dict[str, Tree | None] = {}
    pair: tuple[int, str] = (1, "")


def published(**schemas: Any) -> Manifest:
    texts = {field: json.dumps(schema) for field, schema in schemas.items()}
    return Manifest(handlers=(HandlerInfo(name="mail", **texts),))


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"properties": []}, r"mail\.parameters\.properties"),
        ({"properties": {"a": 7}}, r"mail\.parameters\.properties\.a: a schema is"),
        ({"properties": {"a": {"required": "a"}}}, r"properties\.a\.required"),
        ({"required": [1]}, "required"),
        ({"anyOf": {}}, "anyOf"),
        ({"anyOf": [1]}, r"anyOf\[0\]"),
        ({"items": "x"}, "items"),
        ({"properties": {"a": {"x-secret": "no"}}}, "x-secret"),
        ({"$ref": 7}, "ref"),
        ({"$ref": "https://example.com/x"}, "only references"),
        ({"$ref": "#/$defs/A"}, "is not in the schema"),
        (nested(40), "deeper than 32"),
        ({"properties": {f"a{n}": {} for n in range(1_001)}}, "more than 1,000"),
        ({"description": "a" * 70_000}, "65,536"),
    ],
)
@pytest.mark.parametrize("field", ["parameters", "returns"])
def test_a_malformed_or_huge_schema_is_refused(field: str, schema: dict[str, Any], named: str) -> None:
    store = MemoryStore()

    with pytest.raises(InvalidTask, match=named.replace("parameters", field)):
        manifest.publish(Access(store), published(**{field: schema}), ANN)

    assert store.handlers() == []


def test_schemas_that_msgspec_writes_are_accepted() -> None:
    schema = msgspec.json.schema(Tree)

    assert manifest.publish(Access(MemoryStore()), published(parameters=schema, returns=schema), ANN) == ["mail"]


def test_only_an_admin_can_show_what_was_published_as_secret() -> None:
    store = MemoryStore()
    secret = {"properties": {"pin": {"type": "string", "x-secret": True}, "to": {"type": "string"}}}
    plain = {"properties": {"pin": {"type": "string"}, "to": {"type": "string"}}}
    without = {"properties": {"to": {"type": "string"}}}
    more = {"properties": {**secret["properties"], "to": {"x-secret": True}}}
    worker = Access(store, Caller(name="w", scopes=frozenset({Scope.WORK})))
    manifest.publish(worker, published(parameters=secret, returns={"x-secret": True}), ANN)

    for wrong in (plain, without, {}):
        with pytest.raises(Refused, match=r"mail\.parameters\.properties\.pin was published as secret"):
            manifest.publish(worker, published(parameters=wrong, returns={"x-secret": True}), ANN)
    with pytest.raises(Refused, match=r"mail\.returns was published as secret"):
        manifest.publish(worker, published(parameters=secret, returns={}), ANN)
    assert manifest.publish(worker, published(parameters=more, returns={"x-secret": True}), ANN) == ["mail"]
    assert manifest.publish(Access(store), published(parameters=plain), ANN) == ["mail"]


@pytest.mark.parametrize("schema", [{"properties": [1]}, {"required": "to"}, {"required": [1]}, {"properties": 7}])
def test_a_malformed_schema_in_the_store_fails_neither_a_submit_nor_an_edit(schema: Any) -> None:
    store = MemoryStore()
    store.publish(published(parameters=schema))
    access = Access(store)

    [receipt] = tasks.submit(access, [tasks.new_task(access, "mail", {"to": "ann"}, {})])
    tasks.cancel(access, receipt.id, ANN)

    assert tasks.get(access, receipt.id).args == '{"to":"ann"}'
    assert tasks.edit_and_retry(access, receipt.id, {"to": 1}, ANN).created


def test_the_number_and_the_size_of_all_handlers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(MemoryStore())
    monkeypatch.setattr(manifest, "MAX_HANDLERS", 2)
    manifest.publish(access, Manifest(handlers=(HandlerInfo(name="a"), HandlerInfo(name="b"))), ANN)

    with pytest.raises(InvalidTask, match="there would be 3"):
        manifest.publish(access, MAIL, ANN)
    manifest.publish(access, Manifest(handlers=(HandlerInfo(name="a", doc="again"),)), ANN)
    monkeypatch.setattr(manifest, "MAX_TOTAL_BYTES", 50)
    with pytest.raises(InvalidTask, match="all schemas together"):
        manifest.publish(access, Manifest(handlers=(HandlerInfo(name="a", doc="x" * 51),)), ANN)
