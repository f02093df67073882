"""Changing a cron whose arguments have secrets: what comes back as it was shown stays as it is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from windlass.core.manifest import HandlerInfo, Manifest
from windlass.errors import InvalidTask
from windlass.operations import crons
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.crons import NewCron
from windlass.redaction import HIDDEN
from windlass.stores.memory import MemoryStore

ANN = Author("ann", "test")
PROPERTIES: dict[str, Any] = {name: {} for name in ("n", "database", "people", "other", "deep")}
SCHEMA = json.dumps({"type": "object", "properties": {**PROPERTIES, "pin": {"type": "string", "x-secret": True}}})
STORED = {
    "n": 1,
    "pin": "hunter2",
    "database": "postgres://ann:swordfish@db/shop",
    "people": [{"name": "bob", "password": "one"}, {"name": "eve", "password": "two"}],
}


@pytest.fixture
def access() -> Iterator[Access]:
    store = MemoryStore()
    store.publish(Manifest(handlers=(HandlerInfo(name="mail", parameters=SCHEMA), HandlerInfo(name="work"))))
    access = Access(store)
    crons.create(access, NewCron(name="report", handler="mail", schedule="@daily", args=STORED), ANN)
    yield access
    store.close()


def stored(access: Access) -> dict[str, Any]:
    return json.loads(access.store.crons("report")[0].info.args)


def shown(access: Access) -> dict[str, Any]:
    return json.loads(crons.get(access, "report").state.info.args)


def test_secrets_that_come_back_as_they_were_shown_keep_their_values(access: Access) -> None:
    seen = shown(access)
    assert "hunter2" not in str(seen)
    seen["n"] = 2
    seen["people"][1]["name"] = "mallory"

    crons.change(access, "report", {"args": seen}, ANN)

    people = [{"name": "bob", "password": "one"}, {"name": "mallory", "password": "two"}]
    assert stored(access) == {**STORED, "n": 2, "people": people}


def test_a_new_value_replaces_a_secret_and_one_that_is_left_out_is_gone(access: Access) -> None:
    crons.change(access, "report", {"args": {"pin": "new", "n": 3}}, ANN)

    assert stored(access) == {"pin": "new", "n": 3}


@pytest.mark.parametrize(
    ("args", "where"),
    [
        ({"other": HIDDEN}, "args.other"),
        ({"n": HIDDEN}, "args.n"),
        ({"database": f"postgres://ann:{HIDDEN}@elsewhere/shop"}, "args.database"),
        ({"people": [{"name": "eve", "password": HIDDEN}]}, "args.people.0.password"),
        ({"deep": {"list": [HIDDEN]}}, "args.deep.list.0"),
    ],
)
def test_a_marker_that_hides_nothing_is_refused(access: Access, args: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidTask, match=f"{where} contains"):
        crons.change(access, "report", {"args": args}, ANN)

    assert stored(access) == STORED


def test_another_handler_does_not_show_what_the_first_one_hides(access: Access) -> None:
    for changes in ({"handler": "work"}, {"handler": "work", "args": shown(access)}):
        with pytest.raises(InvalidTask, match=r"args.pin contains"):
            crons.change(access, "report", changes, ANN)
    crons.change(access, "report", {"handler": "work", "args": {**shown(access), "pin": "given"}}, ANN)

    assert stored(access) == {**STORED, "pin": "given"}


def test_a_cron_that_replaces_one_keeps_its_secrets_and_a_new_one_has_none(access: Access) -> None:
    again = NewCron(name="report", handler="mail", schedule="@hourly", args={**shown(access), "n": 5})
    other = NewCron(name="other", handler="mail", schedule="@hourly", args=shown(access))

    crons.create(access, again, ANN, replace=True)
    with pytest.raises(InvalidTask, match="contains"):
        crons.create(access, other, ANN)

    assert stored(access) == {**STORED, "n": 5}
    assert [cron.info.name for cron in access.store.crons()] == ["report"]
