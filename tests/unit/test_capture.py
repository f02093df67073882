from __future__ import annotations

import io
import logging
from contextvars import copy_context

from windlass.worker.capture import MAX_HEAD, MAX_TAIL, Capture, LogHandler, Tee


def test_what_is_printed_belongs_to_the_attempt_and_still_goes_where_it_went() -> None:
    stream, log = io.StringIO(), Capture().begin()
    tee = Tee(stream)

    print("one", file=tee)
    text = log.end()
    print("two", file=tee)

    assert text == "one\n"
    assert stream.getvalue() == "one\ntwo\n"


def test_silence_is_no_log() -> None:
    assert Capture().begin().end() is None


def test_of_much_output_the_beginning_and_the_end_are_kept() -> None:
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


def test_attempts_of_other_contexts_do_not_hear_each_other() -> None:
    mine = Capture().begin()
    tee = Tee(None)

    def other() -> str | None:
        log = Capture().begin()
        tee.write("theirs")
        return log.end()

    theirs = copy_context().run(other)
    tee.write("mine")

    assert (mine.end(), theirs) == ("mine", "theirs")


def test_a_stream_that_is_closed_harms_nobody() -> None:
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


def test_what_the_stream_has_no_letters_for_goes_there_all_the_same() -> None:
    raw, log = io.BytesIO(), Capture().begin()
    tee = Tee(io.TextIOWrapper(raw, "latin-1", write_through=True))

    print("é → \udcff", file=tee)
    print("on", file=tee)

    assert raw.getvalue().decode("latin-1") == "é \\u2192 \\udcff\non\n"
    assert log.end() == "é → \udcff\non\n"
