"""`windlass submit`: many tasks, one a line."""

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
    said = windlass("submit", "-", stdin=ndjson(mail(key="a", priority=3), mail(key="b", after=["a"], delay="5m")))

    assert (said.exit_code, said.stdout, said.stderr) == (0, "2 lines: 2 created\n", "")
    found = {task.key: task for task in store.find(Filter()).tasks}
    assert (found["a"].priority, found["a"].queue, found["b"].waiting) == (3, "mail", 1)


def test_a_second_run_creates_nothing_twice_and_says_so(windlass: Windlass, tmp_path: Path) -> None:
    file = tmp_path / "tasks.ndjson"
    file.write_text(ndjson(*(mail(key=f"k{n}") for n in range(2_500))))

    first = read(windlass("submit", str(file), "--json"))
    file.write_text(file.read_text() + ndjson(mail(key="new")))
    second = read(windlass("submit", str(file), "--json"))

    assert first == {"lines": 2_500, "created": 2_500, "existing": 0, "refused": 0}
    assert second == {"lines": 2_501, "created": 1, "existing": 2_500, "refused": 0}
    assert windlass("submit", str(file)).stdout == "2,501 lines: 0 created, 2,501 there already\n"


BAD = [
    ("{", "line 2: "),
    ('{"handler": "post", "args": {}}', "line 2: handler='post'"),
    ('{"handler": "mail", "args": {}}', "missing: to"),
    ('{"handler": "mail", "args": {"to": "ann"}, "colour": 1}', "colour"),
    ('{"handler": "mail", "args": {"to": "ann"}, "delay": "soon"}', "delay"),
    ('{"handler": "mail", "args": {"to": "ann"}, "after": ["nobody"]}', "'nobody'. Submit it first"),
    ("[1]", "line 2: "),
]


@pytest.mark.parametrize(("line", "named"), BAD)
def test_a_bad_line_is_told_by_its_number_and_harms_no_neighbour(
    windlass: Windlass, store: Store, line: str, named: str
) -> None:
    said = windlass("submit", "-", stdin=f"{ndjson(mail())}{line}\n\n{ndjson(mail())}")

    assert (said.exit_code, said.stdout) == (1, "3 lines: 2 created, 1 refused\n"), said.output
    assert "line 2: " in said.stderr
    assert named in said.stderr
    assert len(store.find(Filter()).tasks) == 2


@pytest.mark.parametrize(("line", "named"), BAD)
def test_with_atomic_a_bad_line_stops_all(windlass: Windlass, store: Store, line: str, named: str) -> None:
    said = windlass("submit", "-", "--atomic", stdin=f"{ndjson(mail())}{line}\n")

    assert (said.exit_code, said.stdout) == (2, ""), said.output
    assert named in said.stderr
    assert store.find(Filter()).tasks == []


def test_with_atomic_all_lines_are_one_batch_in_any_order(windlass: Windlass) -> None:
    said = windlass("submit", "-", "--atomic", stdin=ndjson(mail(key="b", after=["a"]), mail(key="a")))

    assert (said.exit_code, said.stdout) == (0, "2 lines: 2 created\n")


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([mail(key="pack", after=["charge"])], "Unknown prerequisite of 'pack': 'charge'. Submit it first"),
        ([mail(key="a", after=["b"]), mail(key="b", after=["a"])], "cycle of prerequisites: "),
        ([mail(key="a"), mail(key="a")], "Duplicate task: 'a'."),
        ([mail(key="a"), mail(key="b", timeout=-1)], "line 2: timeout="),
    ],
    ids=["unknown", "cycle", "duplicate", "field"],
)
def test_a_refused_batch_is_told_by_the_callers_keys(
    windlass: Windlass, store: Store, tasks: list[dict[str, Any]], told: str
) -> None:
    said = windlass("submit", "-", "--atomic", stdin=ndjson(*tasks))

    assert said.exit_code == 2
    assert told in said.stderr
    assert store.find(Filter()).tasks == []


def test_a_refused_line_is_told_by_the_callers_keys(windlass: Windlass) -> None:
    said = windlass("submit", "-", stdin=ndjson(mail(key="a"), mail(key="pack", after=["charge"]), mail(after=["x"])))

    assert "line 2: Unknown prerequisite of 'pack': 'charge'" in said.stderr
    assert "line 3: Unknown prerequisite: 'x'" in said.stderr


def test_a_refused_task_is_told_by_the_callers_keys(windlass: Windlass) -> None:
    said = windlass("enqueue", "mail", "to=ann", "--key", "pack", "--after", "charge")

    assert said.exit_code == 2
    assert "Unknown prerequisite of 'pack': 'charge'" in said.stderr


def test_each_line_has_a_receipt_for_programs(windlass: Windlass) -> None:
    said = windlass("submit", "-", "--jsonl", stdin=ndjson(mail(key="a"), {"handler": "post"}, mail(key="a")))

    receipts = {each["line"]: each for each in map(json.loads, said.stdout.splitlines())}

    assert (receipts[1]["created"], receipts[3]["created"]) == (True, False)
    assert receipts[1]["id"] == receipts[3]["id"]
    assert receipts[2]["error"]["code"] == "unknown_handler"
    assert said.exit_code == 1


def test_a_full_queue_refuses_the_lines_beyond_it(windlass: Windlass, store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=3))

    said = windlass("submit", "-", stdin=ndjson(*(mail() for _ in range(8))))

    assert said.stdout == "8 lines: 3 created, 5 refused\n"


def test_of_many_bad_lines_only_some_are_told(windlass: Windlass) -> None:
    said = windlass("submit", "-", stdin="{\n" * 50)

    assert said.stderr.count("\n") == module.MOST_TOLD + 1
    assert said.stdout == "50 lines: 0 created, 50 refused\n"


def test_a_handler_that_nobody_offers_is_taken_when_that_is_said(windlass: Windlass) -> None:
    assert lines(windlass("submit", "-", "--unchecked", "--jsonl", stdin=ndjson({"handler": "post"})))[0]["created"]


def test_when_the_store_goes_away_it_says_how_far_it_has_come(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, calls = SQLiteStore.submit, iter([True, False])

    def failing(self: SQLiteStore, *args: Any, **options: Any) -> Any:
        if next(calls):
            return submit(self, *args, **options)
        raise StoreUnavailable("gone")

    monkeypatch.setattr(SQLiteStore, "submit", failing)
    said = windlass("submit", "-", stdin=ndjson(*(mail() for _ in range(1_500))))

    assert said.exit_code == 8
    assert "stopped at line 1001: 1,000 created" in said.stderr
