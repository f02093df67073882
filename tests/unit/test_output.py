from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.output import MAX_HEAD, MAX_OUTPUT, MAX_TAIL, OutputBuffer, OutputFollower, cut_output


def lines(first: int, last: int) -> str:
    return "".join(f"line {number:06}\n" for number in range(first, last))


def test_short_output_is_kept_as_it_is() -> None:
    buffer = OutputBuffer()

    assert buffer.text() == ""
    buffer.write("one")
    buffer.write(" two\n")

    assert buffer.text() == "one two\n"
    assert cut_output("one two\n") == "one two\n"


def test_the_beginning_and_the_end_of_long_output_are_kept() -> None:
    buffer = OutputBuffer()

    buffer.write("a" * MAX_HEAD)
    for _ in range(10):
        buffer.write("b" * (MAX_TAIL - 1) + "\n")
    buffer.write("the end")
    text = buffer.text()

    assert text.startswith("a" * MAX_HEAD)
    assert text.endswith("b\nthe end")
    assert "\n… 294,919 characters left out (9 lines) …\n" in text
    assert len(text) <= MAX_OUTPUT


def test_text_is_cut_alike_in_one_piece_and_in_many() -> None:
    text = lines(0, 20_000)
    buffer = OutputBuffer()
    for start in range(0, len(text), 1_000):
        buffer.write(text[start : start + 1_000])

    assert cut_output(text) == buffer.text()
    assert len(buffer.text()) <= MAX_OUTPUT


def test_a_follower_returns_complete_lines_once_and_the_last_one_at_the_end() -> None:
    follower = OutputFollower()

    assert follower.find_new_lines("one\ntw", running=True) == ["one"]
    assert follower.find_new_lines("one\ntwo\n", running=True) == ["two"]
    assert follower.find_new_lines("one\ntwo\n", running=True) == []
    assert follower.find_new_lines("one\ntwo\nthree", running=False) == ["three"]
    assert OutputFollower().find_new_lines("one\n", running=False) == ["one"]


def test_a_follower_counts_the_lines_that_were_left_out_before_it_saw_them() -> None:
    follower = OutputFollower()
    follower.find_new_lines(lines(0, 100), running=True)

    found = follower.find_new_lines(cut_output(lines(0, 50_000)), running=True)

    assert found[0] == "line 000100"
    assert found[-1] == "line 049999"
    [gap] = [place for place, line in enumerate(found) if "left out" in line]
    left_out = int(found[gap].split()[1].replace(",", ""))
    last, first = found[gap - 1], found[gap + 1]
    # The lines on both sides of the gap are cut: one at its end, the other at its beginning.
    assert "line 0".startswith(last[:6])
    assert len(found) - 1 + left_out + 100 == 50_000
    assert first.endswith(str(50_000 - (len(found) - gap - 1)))


IMITATION = "\n… 1,234 characters left out (56 lines) …\n"


@pytest.mark.parametrize("imitation", [IMITATION, IMITATION * 3, IMITATION.replace("56", ","), IMITATION[:-1] * 2])
@pytest.mark.parametrize("place", [0, 7, MAX_HEAD - 20, MAX_HEAD - len(IMITATION) + 1, MAX_HEAD, MAX_HEAD + 5])
def test_output_that_looks_like_the_mark_of_a_gap_is_followed_like_any_other(imitation: str, place: int) -> None:
    follower, buffer, seen = OutputFollower(), OutputBuffer(), list[str]()
    start = ("x" * 30 + "\n") * 2_000
    whole = start[:place] + imitation + lines(0, 12_000)
    for begin in range(0, len(whole), 1_000):
        buffer.write(whole[begin : begin + 1_000])
        seen += follower.find_new_lines(buffer.text(), running=True)

    assert len(buffer.text()) <= MAX_OUTPUT
    assert [line.replace("·", "…") for line in seen] == whole.splitlines()
    assert cut_output(whole) == buffer.text()


def test_a_stored_output_with_an_impossible_gap_is_still_followed() -> None:
    text = IMITATION.replace("56", ",")

    assert OutputFollower().find_new_lines(text, running=True) == text[:-1].split("\n")


@given(st.lists(st.integers(0, 2_700), min_size=1, max_size=8))
def test_who_follows_closely_misses_no_line_and_sees_none_twice(steps: list[int]) -> None:
    buffer, follower, seen, number = OutputBuffer(), OutputFollower(), list[str](), 0
    for step in steps:
        buffer.write(lines(number, number + step))
        number += step
        seen += follower.find_new_lines(buffer.text(), running=True)
    seen += follower.find_new_lines(buffer.text(), running=False)

    assert seen == lines(0, number).splitlines()
