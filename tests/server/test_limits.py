"""Hostile bodies, slow clients, and a store that does not respond."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import msgspec
import pytest

from tests.server.conftest import API, Client, Connect, problem
from windlass.core.payload import MAX_BYTES
from windlass.errors import CommitUnknown, Refused, StoreUnavailable
from windlass.operations.caller import LOCAL
from windlass.refused_requests import refused_requests
from windlass.server.http import body_budget, request_body
from windlass.server.http.rate_limit import RateLimiter
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


async def post(client: Client, content: Any, headers: dict[str, str] | None = None) -> Any:
    return await client.post(f"{API}/tasks", content=content, headers={**JSON, **(headers or {})})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"handler":"work",}',
        b'{"handler":"work","args":{"x":NaN}}',
        b'{"handler":"work","args":{"x":Infinity}}',
        b'{"handler":"work","args":{"x":1e400}}',
        b'{"handler":"work","args":{"x":-1e999}}',
        b'{"handler":"work","args":{"x":"\\ud800"}}',
        b'{"handler":"work","args":{"x":"\\u0000"}}',
        b'{"handler":"work","args":{"x\\u0000":1}}',
        b'{"handler":"work","args":{"x":1,"x":2}}',
        b'{"handler":"work","handler":"mail"}',
        b'{"handler":"work","args":{"x":"\xff"}}',
        b'{"handler":"work","args":{"x":"\xed\xa0\x80"}}',
        b'{"handler":"work","args":{"x":99999999999999999999999}}',
        b'\xff\xfe{"handler":"work"}',
        b'{"handler":"work"} {"handler":"work"}',
        b"[" * 1_000_000,
        b'{"handler":"work","args":{"x":' + b"[" * 400_000 + b"]" * 400_000 + b"}}",
        b'{"handler":"work","args":{"x":' + b"[" * 70 + b"]" * 70 + b"}}",
        b'{"handler":"work","args":{"x":' + b"1" * 5_000 + b"}}",
    ],
    ids=lambda text: repr(text[:40]),
)
async def test_invalid_json_is_refused_and_nothing_is_stored(client: Client, store: Store, text: bytes) -> None:
    answer = await post(client, text)

    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] in ("invalid_json", "invalid_request", "invalid_payload")
    assert store.counts() == []


@pytest.mark.parametrize(
    "text",
    [
        "\u202e\u200bright to left",
        "<script>alert(1)</script>",
        "'; DROP TABLE task; --",
        "one\ntwo\r\x1b[31m",
        "é" * 1_000,
    ],
)
async def test_hostile_text_is_stored_unchanged(client: Client, text: str) -> None:
    made = await client.post(f"{API}/tasks", json={"handler": "work", "args": {"x": text}})
    read = await client.get(f"{API}/tasks/{made.json()['id']}")

    assert read.json()["args"] == {"x": text}
    assert read.headers["content-type"] == "application/json"


@pytest.mark.parametrize("field", ["handler", "queue", "tenant"])
async def test_names_are_plain_and_short(client: Client, field: str) -> None:
    for name in ("a" * 65_536, "", "a\nb", "<b>", "a/b", "é"):
        problem(await client.post(f"{API}/tasks", json={"handler": "work", field: name}), 400, "invalid_request")
    # A newline at the end slips through many a regular expression.
    answer = await client.post(f"{API}/tasks", json={"handler": "work", field: "a\n"})
    assert answer.status_code in (400, 422)


async def test_a_payload_over_256_kilobytes_is_refused(client: Client, store: Store) -> None:
    found = problem(
        await client.post(f"{API}/tasks", json={"handler": "work", "args": {"x": "a" * MAX_BYTES}}),
        400,
        "invalid_payload",
    )

    assert "262,144" in found["detail"]
    assert store.counts() == []


async def test_a_body_over_a_megabyte_is_refused_by_its_length(client: Client) -> None:
    problem(await post(client, b"x" * 1_000_001), 413, "body_too_large")


async def test_a_body_over_a_megabyte_is_refused_while_it_is_read(client: Client) -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 100_000
            yield b"x" * 100_000

    problem(await post(client, parts()), 413, "body_too_large")
    assert sent < 2_000_000


async def test_a_false_content_length_does_not_evade_the_limit(client: Client) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    problem(await post(client, parts(), {"Content-Length": "10"}), 413, "body_too_large")


async def test_a_compressed_body_is_refused(client: Client) -> None:
    problem(await post(client, b"\x1f\x8b" + b"x" * 100, {"Content-Encoding": "gzip"}), 415, "unsupported_media_type")


async def test_a_body_that_does_not_arrive_times_out(connect: Connect) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep(60)

    problem(await post(connect(request_seconds=0.05), parts()), 408, "request_too_slow")


async def test_a_batch_of_more_than_ten_thousand_tasks_is_refused(client: Client) -> None:
    tasks = [{"handler": "work"}] * 10_001

    problem(await client.post(f"{API}/tasks:batch", json=tasks), 413, "too_many_tasks")


class Away(MemoryStore):
    """A store that is unavailable or hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.let_go = threading.Event()
        self.let_go.set()

    def queues(self) -> Any:
        self.let_go.wait(30)
        if self.error is not None:
            raise self.error
        return super().queues()


@pytest.fixture
def away() -> Iterator[Away]:
    store = Away()
    yield store
    store.let_go.set()


@pytest.mark.parametrize(
    "error", [StoreUnavailable("no route to postgresql://ann:hunter2@db/x"), CommitUnknown("lost")]
)
async def test_an_unavailable_store_is_503_with_retry_after(
    connect: Connect, away: Away, error: StoreUnavailable
) -> None:
    away.error = error
    client = connect(over=away)

    answer = await client.get(f"{API}/queues")
    ready = await client.get("/readyz")

    problem(answer, 503, error.code)
    assert int(answer.headers["retry-after"]) > 0
    assert "postgresql" not in answer.text
    assert "lost" not in answer.text
    assert ready.status_code == 503
    assert [(part["name"], part["ready"]) for part in ready.json()["parts"]] == [("server", True), ("store", False)]


async def test_a_store_that_hangs_blocks_neither_clients_nor_the_health_check(connect: Connect, away: Away) -> None:
    away.let_go.clear()
    client = connect(over=away, request_seconds=0.1, threads=2, backlog=2)

    async with anyio.create_task_group() as group:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await client.get(f"{API}/queues"))

        for _ in range(10):
            group.start_soon(ask)
        health = await client.get("/healthz")

    assert health.status_code == 200
    assert len(answers) == 10
    codes = {answer.json()["code"] for answer in answers}
    assert {answer.status_code for answer in answers} == {503}
    assert codes == {"timed_out", "overloaded"}
    assert all("retry-after" in answer.headers for answer in answers)


async def test_a_store_that_recovers_is_used_again(connect: Connect, away: Away) -> None:
    client = connect(over=away)
    away.error = StoreUnavailable("gone")
    gone = await client.get(f"{API}/queues")

    away.error = None

    assert gone.status_code == 503
    assert (await client.get(f"{API}/queues")).status_code == 200


def test_permits_refill_over_time() -> None:
    now = 0.0
    rates = RateLimiter(2.0, lambda: now)

    def taken() -> int:
        for number in range(100):
            try:
                rates.take(LOCAL)
            except Refused:
                return number
        return 100

    first = taken()
    now = 0.5
    second = taken()
    now = 1_000.0
    third = taken()

    assert (first, second, third) == (4, 1, 4)


async def test_a_body_is_parsed_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"handler":"work","args":{"x":1}}'
    parsed: list[str] = []

    def count(owner: Any, name: str) -> None:
        parse = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            if body in args or body.decode() in args:
                parsed.append(f"{owner.__name__}.{name}")
            return parse(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(json.JSONDecoder, "decode")
    count(msgspec.json, "decode")

    answer = await post(client, body)

    assert (answer.status_code, parsed) == (201, ["JSONDecoder.decode"])


async def test_a_body_of_many_names_is_parsed_outside_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = threading.get_ident()
    parsed: list[tuple[int, int]] = []
    decode = request_body.decode_json

    def noted(data: bytes, *rest: Any) -> Any:
        parsed.append((len(data), threading.get_ident()))
        return decode(data, *rest)

    monkeypatch.setattr(request_body, "decode_json", noted)
    many = {f"name{n}": n for n in range(20_000)}

    large = await client.post(f"{API}/tasks", json={"handler": "work", "args": many})
    small = await client.post(f"{API}/tasks", json={"handler": "work"})

    assert large.status_code in (201, 400), large.text
    assert small.status_code == 201
    [(size, thread), (_, here)] = parsed
    assert size > 320_000
    assert thread != loop
    assert here == loop


async def test_health_checks_are_not_rate_limited_and_share_one_look_at_the_store(connect: Connect, away: Away) -> None:
    asked: list[object] = []
    queues = away.queues

    def counted() -> Any:
        asked.append(None)
        return queues()

    away.queues = counted  # pyright: ignore[reportAttributeAccessIssue]
    client = connect(over=away, rate=1.0)

    answers = [await client.get(path) for path in ("/readyz", "/healthz") * 20]

    assert {answer.status_code for answer in answers} == {200}
    assert len(asked) < 5


@pytest.mark.parametrize("number", [100, 101])
async def test_a_claim_names_a_bounded_number_of_queues(client: Client, number: int) -> None:
    names = [f"q{n}" for n in range(number)]
    session = (await client.post(f"{API}/sessions", json={"node": "n"})).json()["session"]

    opened = await client.post(f"{API}/sessions", json={"node": "n", "queues": names})
    claimed = await client.post(f"{API}/sessions/{session}/claim", json={"queues": names})

    assert (opened.status_code, claimed.status_code) == ((201, 200) if number <= 100 else (400, 400))


async def test_all_bodies_together_have_a_limit_and_free_it_when_they_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "MAX_BODIES", 3_000)
    size = len(b'{"handler":"work","args":{"x":""}}')

    async def parts(number: int) -> AsyncIterator[bytes]:
        yield b'{"handler":"work","args":{"x":"' + b"a" * (number - size)
        yield b'"}}'

    small = [await post(client, parts(2_000)) for _ in range(5)]
    large = await post(client, parts(3_001))
    after = await post(client, parts(2_000))
    stream = await client.post(
        f"{API}/tasks:stream?atomic=true",
        content=b'{"handler":"work"}\n' * 200,
        headers={"Content-Type": "application/x-ndjson"},
    )

    assert {answer.status_code for answer in [*small, after]} == {201}
    problem(large, 503, "overloaded")
    problem(stream, 503, "overloaded")
    assert refused_requests.counts()["held_bytes"] >= 2
