from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from tests.server.conftest import API, Client, Connect, problem
from windlass.core.ordering import Queue
from windlass.errors import StoreUnavailable
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Store

pytestmark = pytest.mark.anyio

NDJSON = {"Content-Type": "application/x-ndjson"}


async def stream(client: Client, *lines: Any, **params: str) -> list[dict[str, Any]]:
    """Send lines, and return the receipts."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    answer = await client.post(f"{API}/tasks:stream", content=text, headers=NDJSON, params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_every_line_gets_its_own_receipt_in_order(client: Client, store: Store) -> None:
    receipts = await stream(client, *[{"handler": "work", "key": f"k{n}"} for n in range(2_500)])

    assert [receipt["line"] for receipt in receipts] == list(range(1, 2_501))
    assert {receipt["state"] for receipt in receipts} == {"runnable"}
    assert sum(count.tasks for count in store.counts()) == 2_500


async def test_an_invalid_line_does_not_affect_others(client: Client, store: Store) -> None:
    store.configure(Queue(name="full", max_waiting=0))
    await stream(client, {"handler": "work", "key": "taken"})

    receipts = await stream(
        client,
        {"handler": "work", "key": "a"},
        "{",
        {"handler": "mail", "args": {}},
        {"handler": "work", "key": "taken", "queue": "other"},
        {"handler": "work", "after": ["nobody"]},
        {"handler": "work", "queue": "full"},
        {"handler": "work", "key": "a"},
        '{"handler": "work", "handler": "mail"}',
        '{"handler": "work", "args": {"x": "\\ud800"}}',
        {"handler": "work", "key": "b", "after": ["a"]},
    )

    codes = [receipt["error"]["code"] if "error" in receipt else receipt["state"] for receipt in receipts]
    assert codes == [
        "runnable",
        "invalid_json",
        "invalid_task",
        "key_conflict",
        "unknown_prerequisite",
        "queue_full",
        "runnable",
        "invalid_json",
        "invalid_json",
        "waiting",
    ]
    assert receipts[6] == {**receipts[0], "line": 7, "created": False}
    assert sum(count.tasks for count in store.counts()) == 3


async def test_empty_lines_are_skipped_but_counted(client: Client) -> None:
    receipts = await stream(client, "", {"handler": "work"}, "  ", {"handler": "work"}, "")

    assert [receipt["line"] for receipt in receipts] == [2, 4]


@pytest.mark.parametrize("atomic", ["true", "false"])
async def test_an_empty_stream_has_no_receipts(client: Client, atomic: str) -> None:
    assert await stream(client, atomic=atomic) == []


async def test_an_atomic_stream_is_all_or_nothing_and_names_the_line(client: Client, store: Store) -> None:
    good = [{"handler": "work", "key": "a"}, {"handler": "work", "key": "b", "after": ["a"]}]
    content = "\n".join(map(json.dumps, [*good, {"handler": "unheard-of"}]))

    refused = await client.post(f"{API}/tasks:stream?atomic=true", content=content, headers=NDJSON)
    nothing = store.counts()
    receipts = await stream(client, *good, atomic="true")

    assert problem(refused, 422, "unknown_handler")["line"] == 3
    assert nothing == []
    assert [receipt["state"] for receipt in receipts] == ["runnable", "waiting"]


async def test_an_atomic_stream_is_limited_to_ten_thousand_lines(client: Client) -> None:
    content = b'{"handler":"work"}\n' * 10_001

    problem(
        await client.post(f"{API}/tasks:stream?atomic=true", content=content, headers=NDJSON), 413, "too_many_tasks"
    )


async def test_a_line_without_end_is_refused(client: Client) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    problem(await client.post(f"{API}/tasks:stream", content=parts(), headers=NDJSON), 413, "body_too_large")


async def test_another_media_type_is_refused(client: Client) -> None:
    answer = await client.post(f"{API}/tasks:stream", json={"handler": "work"})

    problem(answer, 415, "unsupported_media_type")


async def test_a_silent_client_gets_an_error_and_its_earlier_lines_are_kept(connect: Connect, store: Store) -> None:
    client = connect(request_seconds=0.05)

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"handler":"work"}\n'
        await anyio.sleep(10)

    answer = await client.post(f"{API}/tasks:stream", content=parts(), headers=NDJSON)

    first, last = [json.loads(line) for line in answer.text.splitlines()]
    assert (first["line"], first["state"]) == (1, "runnable")
    assert (last["line"], last["error"]["code"]) == (2, "request_too_slow")


class FailingStore(MemoryStore):
    """A store that becomes unavailable after some submits."""

    left = 1

    def submit(self, *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StoreUnavailable("gone")
        return super().submit(*args, **options)


async def test_a_stream_ends_when_the_store_becomes_unavailable(connect: Connect) -> None:
    client = connect(over=FailingStore())

    receipts = await stream(client, *[{"handler": "work"}] * 5_000, unchecked="true")

    good = [receipt for receipt in receipts if "error" not in receipt]
    bad = {receipt["error"]["code"] for receipt in receipts if "error" in receipt}
    assert len(good) == 1_000
    assert bad == {"store_unavailable"}
    assert len(receipts) == 2_000


async def test_lines_may_be_split_across_chunks(client: Client, store: Store) -> None:
    text = "\n".join(json.dumps({"handler": "work", "args": {"n": n, "é": "ü"}}) for n in range(50)).encode()

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 7):
            yield text[start : start + 7]

    answer = await client.post(f"{API}/tasks:stream", content=parts(), headers=NDJSON)

    assert len(answer.text.splitlines()) == 50
    assert {json.loads(task.args)["é"] for task in store.find(Filter(), limit=100).tasks} == {"ü"}
