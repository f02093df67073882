from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.names import check_name, check_text, shorten
from windlass.errors import InvalidTask


@given(name=st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True))
def test_a_plain_name_is_taken(name: str) -> None:
    check_name("queue", name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "a\n", "x" * 129, "٣", None, 7, b"x", ["a"]], ids=repr)
def test_anything_else_is_refused_by_field_and_value(name: Any) -> None:
    with pytest.raises(InvalidTask, match="queue=" + re.escape(shorten(name))):
        check_name("queue", name)


@pytest.mark.parametrize("text", ["a", "two words", "ünïcödé ☂ 🪢", "x" * 512, "a/b?c=d"], ids=lambda text: text[:20])
def test_clean_text_is_taken(text: str) -> None:
    check_text("key", text)


@pytest.mark.parametrize(
    "text",
    ["", "x" * 513, "a\nb", "a\tb", "a\0", "\ud800", "\u202e", "\x7f", None, 7],
    ids=lambda text: repr(text)[:20],
)
def test_unclean_text_is_refused_by_field(text: Any) -> None:
    with pytest.raises(InvalidTask, match="key="):
        check_text("key", text)


@given(value=st.text(max_size=300) | st.lists(st.integers(), max_size=99))
def test_what_is_shown_is_one_short_line(value: Any) -> None:
    assert len(shorten(value)) <= 80
    assert "\n" not in shorten(value)
