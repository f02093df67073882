"""How events of a node are logged: one line per end of a task, with its traceback, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from tests.unit.values import an_id
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Lease, SessionId
from windlass.events import AttemptEnded, Event, Events, NodeStarted, PoolResized
from windlass.worker.log_format import JsonLines, TerminalLines
from windlass.worker.logs import log_event, logger

TRACEBACK = 'Traceback (most recent call last):\n  File "shop.py", line 3, in send\nValueError: password=hunter2'


class Lines(logging.Handler):
    """Keeps what is logged, in both forms."""

    def __init__(self) -> None:
        super().__init__()
        self.json: list[dict[str, object]] = []
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.json.append(json.loads(JsonLines().format(record)))
        self.text.append(TerminalLines(color=True).format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def ended(state: State = State.COMPLETED, error: Error | None = None) -> AttemptEnded:
    lease = Lease(an_id(7), 1, SessionId(an_id(8)))
    return AttemptEnded(
        lease=lease, handler="shop.send", queue="mail", state=state, seconds=0.25, attempt=2, error=error
    )


def test_the_end_of_a_task_is_one_line(lines: Lines) -> None:
    log_event(ended())

    [line] = lines.json
    names = ("event", "handler", "task_id", "state", "seconds", "attempt", "level")
    found = [line[name] for name in names]
    assert found == ["AttemptEnded", "shop.send", str(an_id(7)), "completed", 0.25, 2, "info"]
    [text] = lines.text
    assert f"✓ shop.send {an_id(7)} completed in 0.25 s, attempt 2" in text
    assert "\n" not in text


@pytest.mark.parametrize(("state", "level"), [(State.FAILED, "error"), (State.RETRYING, "warning")])
def test_a_failure_has_its_error_and_traceback_without_secrets(lines: Lines, state: State, level: str) -> None:
    log_event(ended(state, Error(kind="ValueError", message="password=hunter2", traceback=TRACEBACK)))

    [line], [text] = lines.json, lines.text
    assert line["level"] == level
    assert str(line["reason"]).startswith("ValueError: ")
    assert "in send" in str(line["traceback"])
    assert "in send" in text
    assert "hunter2" not in text + json.dumps(line)


def test_every_line_of_the_json_log_has_an_event(lines: Lines) -> None:
    log_event(PoolResized(pool="mail", before=3, after=1, why="idle"))
    log_event(NodeStarted(app="shop:app", store="sqlite:///shop.db (--store)", pools="mail", hidden=("A",)))
    logger.warning("something else")

    assert [line["event"] for line in lines.json] == ["PoolResized", "NodeStarted", "Log"]
    assert "pool mail: 3 → 1 workers: idle" in lines.text[0]
    assert "on sqlite:///shop.db (--store)" in lines.text[1]
    assert "workers do not see A" in lines.text[1]


def test_a_listener_for_failures_gets_no_completed_attempt() -> None:
    all_of_them: list[Event] = []
    failures: list[Event] = []
    none: list[Event] = []
    events = Events(all_of_them.append)
    events.listen(failures.append, attempts="failed")
    events.listen(none.append, attempts="none")

    events.emit(ended())
    events.emit(ended(State.FAILED))

    assert ([each.state for each in all_of_them if isinstance(each, AttemptEnded)], len(failures), none) == (
        [State.COMPLETED, State.FAILED],
        1,
        [],
    )
