"""A secret placed everywhere must appear nowhere."""

from __future__ import annotations

import logging
import re

import pytest

from tests.server.conftest import API, Client, Connect
from tests.support.builders import claim_one, report, submit_one
from tests.support.tokens import create_token
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Returned
from windlass.core.task import Progress
from windlass.operations.caller import Scope
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

CANARY = "canary-4711"
URL = f"postgresql://ann:{CANARY}@db.example/shop"
TEXT = f"could not reach {URL} with password={CANARY}"


async def test_no_response_and_no_log_contains_a_secret(
    client: Client, connect: Connect, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    args = {"to": "ann", "pin": CANARY, "password": CANARY, "deep": [{"apiKey": CANARY}], "where": URL}
    bad, good = submit_one(store, handler="mail", args=args), submit_one(store, queue="second")
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.1, message=TEXT)])
    report(store, claim, Raised(Error(kind="OSError", message=TEXT, traceback=TEXT), give_up=True))
    report(store, claim_one(store, queue="second"), Returned(f'{{"token":"{CANARY}","dsn":"{URL}"}}'))
    await client.post(f"{API}/tasks/{bad}/retry", json={"why": TEXT})
    await client.post(f"{API}/queues/second/pause", json={"why": TEXT})
    session = store.open_session("node", about=f'{{"store_password":"{CANARY}"}}')
    secret = create_token(store, "admin", [Scope.ADMIN])

    reader = connect(secret)
    answers = ""
    for route in TABLE:
        for id in (bad, good) if "{id}" in route.path else (bad,):
            if route.method == "GET":
                path = route.path.replace("{id}", str(id)).replace("{name}", "none").replace("{group}", "0" * 12)
                path = path.replace("{session}", str(session))
                ends = {"seconds": "0"} if path.endswith("/events") else None
                answer = await reader.get(path, params=ends)
                assert answer.status_code == 200 or {"{name}", "{group}"} & {*re.findall(r"{\w+}", route.path)}, path
                assert CANARY not in answer.text, route.path
                answers += answer.text
    refused = await reader.post(
        f"{API}/tasks", json={"handler": "mail", "args": {"to": "x", "password": CANARY, "y": 1}}
    )
    answers += refused.text

    assert str(bad) in answers
    assert "[redacted]" in answers
    assert CANARY not in answers
    assert secret not in answers
    assert CANARY not in caplog.text
    assert secret not in caplog.text
