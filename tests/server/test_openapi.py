from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner

from tests.server.conftest import API, Client
from tests.support.builders import GAVE_UP, claim_one, report, submit_one
from windlass.cli.main import main
from windlass.operations.caller import Scope
from windlass.server.http.openapi import document
from windlass.server.http.routing import Route, Routes
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store
from windlass.wire.problems import STATUSES

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(TABLE)))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "$ref":
                yield member
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)


def validate(shape: str, value: Any) -> None:
    """Validate a value against a schema of the document."""
    schema = {"$ref": f"#/components/schemas/{shape}", "components": DOCUMENT["components"]}
    jsonschema_rs.validator_for(schema).validate(value)


def test_the_document_describes_every_route_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert described == {(route.method, route.path) for route in TABLE}
    assert len(described) == len(TABLE)
    assert DOCUMENT["openapi"].startswith("3.1")


def test_operation_names_are_unique_and_every_operation_has_a_summary() -> None:
    names = [route.name for route in TABLE]

    assert len({*names}) == len(names)
    assert [route.name for route in TABLE if not route.summary] == []


def test_every_reference_resolves() -> None:
    missing = {
        each for each in references(DOCUMENT) if each.rpartition("/")[2] not in DOCUMENT["components"]["schemas"]
    }

    assert missing == set()


def test_every_code_that_a_route_names_has_a_status() -> None:
    assert {code for route in TABLE for code in route.errors} <= STATUSES.keys()


@pytest.mark.anyio
async def test_the_server_and_the_command_give_the_same_document(client: Client) -> None:
    served = await client.get(f"{API}/openapi.json")
    printed = CliRunner().invoke(main, ["openapi"])

    assert served.json() == DOCUMENT
    assert json.loads(printed.stdout) == DOCUMENT


@pytest.mark.anyio
async def test_responses_match_the_document(client: Client, store: Store) -> None:
    id = submit_one(store, handler="work", args={"x": 1})
    report(store, claim_one(store), GAVE_UP)

    validate("TaskShape", (await client.get(f"{API}/tasks/{id}")).json())
    validate("TaskPage", (await client.get(f"{API}/tasks")).json())
    validate("WhyShape", (await client.get(f"{API}/tasks/{id}/why")).json())
    validate("Problem", (await client.get(f"{API}/tasks?limit=0")).json())
    for attempt in (await client.get(f"{API}/tasks/{id}/attempts")).json():
        validate("AttemptShape", attempt)


def test_a_route_is_declared_by_the_signature_of_its_function() -> None:
    route = Routes("tries")

    @route("GET", "/tries/{number}", Scope.READ, errors=["unknown_task"])
    def get_try(call: Any, number: int) -> list[str]:
        """One try.

        And more about it.
        """
        return [str(number)]

    found = document(route)["paths"]["/api/v1/tries/{number}"]["get"]
    assert (found["summary"], found["description"]) == ("One try.", "And more about it.")
    assert found["parameters"] == [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}]
    assert found["responses"]["200"]["content"]["application/json"]["schema"] == {
        "type": "array",
        "items": {"type": "string"},
    }
    assert found["responses"]["404"]["description"] == "unknown_task"
    assert (found["x-scope"], found["security"]) == ("read", [{"token": []}])
    assert get_try(None, 3) == ["3"]


MODULES = {"/handlers": "manifest", "/healthz": "health", "/readyz": "health"}
"""Paths whose module has another name than the resource."""


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
def test_the_path_of_a_route_predicts_its_module(route: Route) -> None:
    """`/tasks/{id}` is in tasks.py, `/tasks:cancel` in tasks.py or tasks_….py, and `…/events` in events.py."""
    path = route.path.removeprefix(API)
    resource = "events" if path.endswith("/events") else path.split("/")[1].partition(":")[0]
    module = route.handler.__module__.rpartition(".")[2]

    assert module == MODULES.get(path, resource) or module.startswith(f"{resource}_")


def test_times_have_the_format_date_time() -> None:
    schemas = json.loads(json.dumps(document(TABLE)))["components"]["schemas"]

    task = schemas["TaskShape"]["properties"]
    assert task["due"] == {"type": "string", "format": "date-time"}
    assert {"type": "string", "format": "date-time"} in task["deadline"]["anyOf"]
    assert schemas["EntryShape"]["properties"]["at"]["format"] == "date-time"
