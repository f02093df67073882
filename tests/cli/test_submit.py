"""`windlass submit`: many tasks, one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Windlass, lines, read
from windlass.cli import submit as module
from windlass.core.ordering import Queue
from windlass.errors import StoreUnavailable
from windlass.stores.protocol import Filter, Store
from windlass.stores.sqlite import SQLiteStore


def ndjson(*tasks: dict[str, Any]) -> str:
    return "".join(json.dumps(task) + "\n" for task in tasks)


def mail(**more: Any) -> dict[str, Any]:
    return {"handler": "mail", "args": {"to": "ann"}, **more}


def test_each_line_of_standard_input_becomes_a_task(windlass: Windlass, store: Store) -> None:
    result = windlass("submit", "-", stdin=ndjson(mail(key="a", priority=3), mail(key="b", after=["a"], delay="5m")))

    assert (result.exit_code, result.stdout, result.stderr) == (0, "2 lines: 2 created\n", "")
    found = {task.key: task for task in store.find(Filter()).tasks}
    assert (found["a"].priority, found["a"].queue, found["b"].waiting) == (3, "mail", 1)


def test_a_second_run_creates_no_task_twice(windlass: Windlass, tmp_path: Path) -> None:
    file = tmp_path / "tasks.ndjson"
    file.write_text(ndjson(*(mail(key=f"k{n}") for n in range(2_500))))

    first = read(windlass("submit", str(file), "--json"))
    file.write_text(file.read_text() + ndjson(mail(key="new")))
    second = read(windlass("submit", str(file), "--json"))

    assert first == {"lines": 2_500, "created": 2_500, "existing": 0, "refused": 0}
    assert second == {"lines": 2_501, "created": 1, "existing": 2_500, "refused": 0}
    assert windlass("submit", str(file)).stdout == "2,501 lines: 0 created, 2,501 already submitted\n"


BAD = [
    ("{", "line 2: "),
    ('{"handler": "post", "args": {}}', "line 2: handler='post'"),
    ('{"handler": "mail", "args": {}}', "Missing: to"),
    ('{"handler": "mail", "args": {"to": "ann"}, "colour": 1}', "colour"),
    ('{"handler": "mail", "args": {"to": "ann"}, "delay": "soon"}', "delay"),
    ('{"handler": "mail", "args": {"to": "ann"}, "after": ["nobody"]}', "'nobody'. Submit it first"),
    ("[1]", "line 2: "),
]


@pytest.mark.parametrize(("line", "named"), BAD)
def test_a_bad_line_is_reported_with_its_number_and_does_not_affect_others(
    windlass: Windlass, store: Store, line: str, named: str
) -> None:
    result = windlass("submit", "-", stdin=f"{ndjson(mail())}{line}\n\n{ndjson(mail())}")

    assert (result.exit_code, result.stdout) == (1, "3 lines: 2 created, 1 refused\n"), result.output
    assert "line 2: " in result.stderr
    assert named in result.stderr
    assert len(store.find(Filter()).tasks) == 2


@pytest.mark.parametrize(("line", "named"), BAD)
def test_with_atomic_a_bad_line_prevents_all(windlass: Windlass, store: Store, line: str, named: str) -> None:
    result = windlass("submit", "-", "--atomic", stdin=f"{ndjson(mail())}{line}\n")

    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert named in result.stderr
    assert store.find(Filter()).tasks == []


def test_with_atomic_all_lines_are_one_batch_in_any_order(windlass: Windlass) -> None:
    result = windlass("submit", "-", "--atomic", stdin=ndjson(mail(key="b", after=["a"]), mail(key="a")))

    assert (result.exit_code, result.stdout) == (0, "2 lines: 2 created\n")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([mail(key="pack", after=["charge"])], "Unknown prerequisite of 'pack': 'charge'. Submit it first"),
        ([mail(key="a", after=["b"]), mail(key="b", after=["a"])], "cycle of prerequisites: "),
        ([mail(key="a"), mail(key="a")], "Duplicate task: 'a'."),
        ([mail(key="a"), mail(key="b", timeout=-1)], "line 2: timeout="),
    ],
    ids=["unknown", "cycle", "duplicate", "field"],
)
def test_an_error_of_a_batch_names_the_keys(
    windlass: Windlass, store: Store, tasks: list[dict[str, Any]], message: str
) -> None:
    result = windlass("submit", "-", "--atomic", stdin=ndjson(*tasks))

    assert result.exit_code == 2
    assert message in result.stderr
    assert store.find(Filter()).tasks == []


def test_an_error_of_a_line_names_the_keys(windlass: Windlass) -> None:
    result = windlass("submit", "-", stdin=ndjson(mail(key="a"), mail(key="pack", after=["charge"]), mail(after=["x"])))

    assert "line 2: Unknown prerequisite of 'pack': 'charge'" in result.stderr
    assert "line 3: Unknown prerequisite: 'x'" in result.stderr


def test_an_error_of_a_task_names_the_keys(windlass: Windlass) -> None:
    result = windlass("enqueue", "mail", "to=ann", "--key", "pack", "--after", "charge")

    assert result.exit_code == 2
    assert "Unknown prerequisite of 'pack': 'charge'" in result.stderr


def test_jsonl_prints_a_receipt_for_each_line(windlass: Windlass) -> None:
    result = windlass("submit", "-", "--jsonl", stdin=ndjson(mail(key="a"), {"handler": "post"}, mail(key="a")))

    receipts = {each["line"]: each for each in map(json.loads, result.stdout.splitlines())}

    assert (receipts[1]["created"], receipts[3]["created"]) == (True, False)
    assert receipts[1]["id"] == receipts[3]["id"]
    assert receipts[2]["error"]["code"] == "unknown_handler"
    assert result.exit_code == 1


def test_a_full_queue_refuses_further_lines(windlass: Windlass, store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=3))

    result = windlass("submit", "-", stdin=ndjson(*(mail() for _ in range(8))))

    assert result.stdout == "8 lines: 3 created, 5 refused\n"


def test_only_the_first_bad_lines_are_reported(windlass: Windlass) -> None:
    result = windlass("submit", "-", stdin="{\n" * 50)

    assert result.stderr.count("\n") == module.MOST_REPORTED + 1
    assert result.stdout == "50 lines: 0 created, 50 refused\n"


def test_unchecked_accepts_an_unknown_handler(windlass: Windlass) -> None:
    assert lines(windlass("submit", "-", "--unchecked", "--jsonl", stdin=ndjson({"handler": "post"})))[0]["created"]


def test_when_the_store_fails_the_progress_is_reported(windlass: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, calls = SQLiteStore.submit, iter([True, False])

    def failing(self: SQLiteStore, *args: Any, **options: Any) -> Any:
        if next(calls):
            return submit(self, *args, **options)
        raise StoreUnavailable("gone")

    monkeypatch.setattr(SQLiteStore, "submit", failing)
    result = windlass("submit", "-", stdin=ndjson(*(mail() for _ in range(1_500))))

    assert result.exit_code == 8
    assert "Stopped at line 1001: 1,000 created" in result.stderr
