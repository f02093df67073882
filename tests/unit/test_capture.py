from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from tests.unit.values import an_id
from windlass import App
from windlass.client.context import Context
from windlass.core.assignment import Assignment
from windlass.worker import capture as module
from windlass.worker.capture import Capture, JsonTee, LogHandler, Tee
from windlass.worker.thread_output import attribute_threads


class Attempts:
    """Attempts whose output is captured, by their tickets."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.capture = Capture(self.running)

    def run(self, ticket: int, handler: Callable[[], object]) -> str | None:
        """Call the handler as an attempt with this ticket, and return its output."""
        self.running.add(ticket)
        with self.context(ticket):
            handler()
        self.running.discard(ticket)
        return self.capture.take(ticket)

    def context(self, ticket: int) -> Context:
        assignment = Assignment(ticket=ticket, task=an_id(ticket), fence=1, handler="work", args="{}")
        return Context(assignment, NoChannel(), App("memory:"))


class NoChannel:
    """A channel that these attempts do not use."""

    def progress(self, assignment: Assignment, share: float | None, message: str | None) -> None: ...

    def waiting(self, assignment: Assignment, waits: bool) -> None: ...

    def may_start(self, assignment: Assignment) -> bool:
        return True

    def cancelled(self, assignment: Assignment) -> bool:
        return False


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


def test_output_is_captured_for_the_attempt_and_still_printed(attempts: Attempts) -> None:
    stream = io.StringIO()
    tee = Tee(stream, attempts.capture)

    text = attempts.run(1, lambda: print("one", file=tee))
    print("two", file=tee)

    assert text == "one\n"
    assert stream.getvalue() == "one\ntwo\n"


def test_an_attempt_without_output_has_no_log(attempts: Attempts) -> None:
    assert attempts.run(1, lambda: None) is None


def test_running_attempts_that_have_printed_since_the_last_call_are_returned_with_all_their_output(
    attempts: Attempts,
) -> None:
    tee, seen = Tee(None, attempts.capture), list[list[tuple[int, str]]]()

    def look() -> None:
        seen.append(attempts.capture.take_changed())

    def work() -> None:
        look()
        tee.write("one ")
        tee.write("")
        look()
        look()
        tee.write("two")
        look()

    assert attempts.run(1, work) == "one two"
    look()

    assert seen == [[], [(1, "one ")], [], [(1, "one two")], []]


def test_an_attempt_that_has_ended_is_not_returned(attempts: Attempts) -> None:
    tee = Tee(None, attempts.capture)
    attempts.run(1, lambda: tee.write("one"))

    attempts.capture.wait_for_change()

    assert attempts.capture.take_changed() == []


def test_output_beyond_the_limit_is_left_to_the_next_call_and_keeps_its_turn(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_AT_ONCE", 5)
    tee, seen = Tee(None, attempts.capture), list[list[int]]()

    def write(*tickets: int) -> None:
        for ticket in tickets:
            with attempts.context(ticket):
                tee.write("abc")

    attempts.running |= {1, 2, 3}
    write(1, 2, 3, 1)
    for _ in range(3):
        attempts.capture.wait_for_change()
        seen.append([ticket for ticket, _ in attempts.capture.take_changed()])
        if len(seen) == 1:
            write(1)

    assert seen == [[1], [2, 3], [1]]


def test_attempts_in_other_contexts_have_separate_logs(attempts: Attempts) -> None:
    tee, theirs = Tee(None, attempts.capture), list[str | None]()

    def work() -> None:
        theirs.append(copy_context().run(lambda: attempts.run(2, lambda: tee.write("theirs"))))
        tee.write("mine")

    mine = attempts.run(1, work)

    assert (mine, theirs) == ("mine", ["theirs"])


@pytest.fixture
def attributed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attribute threads to attempts, as in a worker, until the end of the test."""
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    attribute_threads()


@pytest.mark.usefixtures("attributed")
def test_output_of_a_thread_that_the_handler_starts_is_captured(attempts: Attempts) -> None:
    tee = Tee(None, attempts.capture)

    def nested() -> None:
        thread = threading.Thread(target=lambda: tee.write("of a thread of a thread"))
        thread.start()
        thread.join()

    def work() -> None:
        thread = threading.Thread(target=nested)
        thread.start()
        thread.join()

    assert attempts.run(1, work) == "of a thread of a thread"


@pytest.mark.usefixtures("attributed")
def test_output_of_a_shared_thread_pool_is_captured_for_the_attempt_that_uses_it(attempts: Attempts) -> None:
    tee = Tee(None, attempts.capture)
    with ThreadPoolExecutor(1) as pool:
        first = attempts.run(1, lambda: pool.submit(tee.write, "first").result())
        second = attempts.run(2, lambda: pool.submit(tee.write, "second").result())

    assert (first, second) == ("first", "second")


def test_each_line_of_standard_error_is_an_object_in_a_json_log(attempts: Attempts) -> None:
    stream = io.StringIO()
    tee = JsonTee(stream, attempts.capture)

    def work() -> None:
        tee.write("one\ntw")
        tee.write("o\n")

    text = attempts.run(1, work)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert text == "one\ntwo\n"
    assert [(line["event"], line["message"], line["handler"]) for line in lines] == [
        ("TaskOutput", "one", "work"),
        ("TaskOutput", "two", "work"),
    ]
    assert lines[0]["task_id"] == str(an_id(1))


def test_output_after_the_end_of_an_attempt_is_dropped(attempts: Attempts) -> None:
    tee, late = Tee(None, attempts.capture), list[Callable[[], object]]()

    def work() -> None:
        context = copy_context()
        late.append(lambda: context.run(lambda: tee.write("late")))

    attempts.run(1, work)
    late[0]()

    assert attempts.capture.take(1) is None


def test_a_closed_stream_is_ignored(attempts: Attempts) -> None:
    stream = io.StringIO()
    tee = Tee(stream, attempts.capture)
    stream.close()

    def work() -> None:
        tee.write("still here")
        tee.flush()
        tee.close()

    assert attempts.run(1, work) == "still here"


def test_log_records_are_kept_with_their_attempt(attempts: Attempts) -> None:
    record = logging.LogRecord("shop", logging.INFO, "", 0, "sold %d", (3,), None)

    assert attempts.run(1, lambda: LogHandler(attempts.capture).emit(record)) == "sold 3\n"


def test_characters_that_the_stream_cannot_encode_are_escaped(attempts: Attempts) -> None:
    raw = io.BytesIO()
    tee = Tee(io.TextIOWrapper(raw, "latin-1", write_through=True), attempts.capture)

    def work() -> None:
        print("é → \udcff", file=tee)
        print("on", file=tee)

    text = attempts.run(1, work)

    assert raw.getvalue().decode("latin-1") == "é \\u2192 \\udcff\non\n"
    assert text == "é → \udcff\non\n"
