from __future__ import annotations

import io
import logging
from contextvars import copy_context

from windlass.worker.capture import MAX_HEAD, MAX_TAIL, Capture, LogHandler, Tee


def test_output_is_captured_for_the_attempt_and_still_printed() -> None:
    stream, log = io.StringIO(), Capture().begin()
    tee = Tee(stream)

    print("one", file=tee)
    text = log.end()
    print("two", file=tee)

    assert text == "one\n"
    assert stream.getvalue() == "one\ntwo\n"


def test_an_attempt_without_output_has_no_log() -> None:
    assert Capture().begin().end() is None


def test_the_beginning_and_the_end_of_long_output_are_kept() -> None:
    log = Capture().begin()

    log.write("a" * MAX_HEAD)
    for _ in range(10):
        log.write("b" * MAX_TAIL)
    log.write("the end")
    text = log.end() or ""

    assert text.startswith("a" * MAX_HEAD)
    assert text.endswith("the end")
    assert "characters left out" in text
    assert len(text) < MAX_HEAD + MAX_TAIL + 100


def test_attempts_in_other_contexts_have_separate_logs() -> None:
    mine = Capture().begin()
    tee = Tee(None)

    def other() -> str | None:
        log = Capture().begin()
        tee.write("theirs")
        return log.end()

    theirs = copy_context().run(other)
    tee.write("mine")

    assert (mine.end(), theirs) == ("mine", "theirs")


def test_a_closed_stream_is_ignored() -> None:
    stream, log = io.StringIO(), Capture().begin()
    tee = Tee(stream)
    stream.close()

    tee.write("still here")
    tee.flush()
    tee.close()

    assert log.end() == "still here"


def test_log_records_are_kept_with_their_attempt() -> None:
    log = Capture().begin()

    LogHandler().emit(logging.LogRecord("shop", logging.INFO, "", 0, "sold %d", (3,), None))

    assert log.end() == "sold 3\n"


def test_characters_that_the_stream_cannot_encode_are_escaped() -> None:
    raw, log = io.BytesIO(), Capture().begin()
    tee = Tee(io.TextIOWrapper(raw, "latin-1", write_through=True))

    print("é → \udcff", file=tee)
    print("on", file=tee)

    assert raw.getvalue().decode("latin-1") == "é \\u2192 \\udcff\non\n"
    assert log.end() == "é → \udcff\non\n"
