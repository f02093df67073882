"""Which failures are one bug."""

from __future__ import annotations

import pytest

from windlass.core.fingerprint import fingerprint, frames, likeness
from windlass.core.retry import Error


def traced(*places: tuple[str, int, str], kind: str = "ValueError", message: str = "") -> Error:
    """An error with a traceback through these places."""
    lines = [f'  File "{file}", line {line}, in {name}\n    code()\n' for file, line, name in places]
    text = "Traceback (most recent call last):\n" + "".join(lines) + f"{kind}: {message}\n"
    return Error(kind=kind, message=message, traceback=text)


MAIN = ("/srv/a/shop/main.py", 10, "run")
BILL = ("/srv/a/shop/bill.py", 41, "render_invoice")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (traced(MAIN, BILL), traced(MAIN, ("/srv/a/shop/bill.py", 44, "render_invoice"))),
        (traced(MAIN, BILL), traced(MAIN, ("/home/b/shop/bill.py", 41, "render_invoice"))),
        (traced(BILL, message="order 17 of 99"), traced(BILL, message="order 4 of 1,200.5")),
        (traced(BILL, message="no row 'ann'"), traced(BILL, message="no row 'bob'")),
        (
            traced(message="task 0199a3f4-0000-7000-8000-0123456789ab is gone"),
            traced(message="task 0199b000-1111-7222-9333-ffffffffffff is gone"),
        ),
        (traced(message="<Row at 0x7f00aa>"), traced(message="<Row at 0x12bc>")),
        (traced(message="digest 9f2c0a1bcd"), traced(message="digest 00ffee1122")),
    ],
)
def test_what_differs_from_run_to_run_makes_no_other_bug(one: Error, other: Error) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    "other",
    [
        traced(MAIN, BILL, kind="KeyError", message="no total"),
        traced(MAIN, ("/srv/a/shop/bill.py", 41, "sum_up"), message="no total"),
        traced(MAIN, ("/srv/a/shop/mail.py", 41, "render_invoice"), message="no total"),
        traced(MAIN, BILL, message="no address"),
    ],
)
def test_another_kind_place_or_message_is_another_bug(other: Error) -> None:
    assert fingerprint(traced(MAIN, BILL, message="no total")) != fingerprint(other)


def test_only_the_innermost_frames_count() -> None:
    deep = [(f"/srv/app/f{n}.py", n, f"g{n}") for n in range(4)]

    assert frames(traced(*deep).traceback) == ["app/f1.py:g1", "app/f2.py:g2", "app/f3.py:g3"]
    assert fingerprint(traced(*deep)) == fingerprint(traced(*deep[1:]))


def test_the_first_line_of_a_message_is_what_counts() -> None:
    assert likeness("bad value 42\nHINT: 17 others") == "bad value #"


def test_an_error_without_a_traceback_has_one_too() -> None:
    assert len(fingerprint(Error(kind="NodeLost"))) == 8


def test_a_long_run_of_blank_lines_takes_linear_time() -> None:
    """If every blank line were scanned from every blank line before it, this would exceed the test timeout."""
    blank = "\n" * 2**20

    assert frames(blank + traced(BILL).traceback + blank) == ["shop/bill.py:render_invoice"]
