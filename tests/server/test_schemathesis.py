"""Requests that schemathesis generates from the OpenAPI document. None may break the server or the document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.server.conftest import MANIFEST
from tests.server.running import running
from tests.support.tokens import create_token
from windlass.operations.caller import Scope
from windlass.server.http.openapi import document
from windlass.server.routes.table import TABLE
from windlass.stores.memory import MemoryStore

pytestmark = [
    pytest.mark.slow,
    # The server runs in a thread of this process, and the pauses of its sweep are drawn from `random` meanwhile.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
    ignored_auth,
]


@schemathesis.serializer("application/x-ndjson")
def as_lines(ctx: Any, value: Any) -> bytes:
    """Serialize a generated value as NDJSON."""
    return str(value).encode(errors="replace")


schema = schemathesis.openapi.from_dict(json.loads(json.dumps(document(TABLE))))


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, requests.Session]]:
    store = MemoryStore()
    store.publish(MANIFEST)
    token = create_token(store, "admin", [Scope.ADMIN])
    with running(store, rate=1e9) as address, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {token}"
        yield address, session


@schema.parametrize()
@hypothesis.settings(max_examples=10, suppress_health_check=list(hypothesis.HealthCheck))
def test_generated_requests_get_documented_responses(case: Any, server: tuple[str, requests.Session]) -> None:
    address, session = server
    headers = {"Authorization": str(session.headers["Authorization"])}
    if case.path.endswith("/events"):  # The stream would never end otherwise.
        case.query = {**(case.query or {}), "seconds": 0}
        case.headers = {**(case.headers or {}), "Last-Event-ID": "0"}  # Otherwise most streams end before any event.
    case.call_and_validate(base_url=address, session=session, headers=headers, checks=CHECKS)
