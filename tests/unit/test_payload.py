from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.payload import MAX_BYTES, MAX_DEPTH, canonical, encode_args, encode_result
from windlass.errors import InvalidPayload

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(args=st.dictionaries(texts, plain, max_size=4))
def test_plain_json_comes_back_as_it_was(args: dict[str, Any]) -> None:
    assert json.loads(encode_args(args)) == args


@given(value=plain)
def test_a_result_comes_back_as_it_was(value: Any) -> None:
    text = encode_result(value)

    assert (None if text is None else json.loads(text)) == value


@given(args=st.dictionaries(texts, plain, min_size=2, max_size=4))
def test_equal_arguments_are_equal_bytes_whatever_their_order(args: dict[str, Any]) -> None:
    turned = dict(reversed(args.items()))

    assert canonical(args) == canonical(turned)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_depth_is_counted_from_the_arguments_themselves(depth: int) -> None:
    value: Any = 0
    for _ in range(depth):
        value = {"inner": value}

    if depth < MAX_DEPTH:
        assert encode_args({"a": value})
    else:
        with pytest.raises(InvalidPayload, match="a: nested deeper"):
            encode_args({"a": value})


def test_an_object_that_contains_itself_is_refused_and_not_followed_for_ever() -> None:
    cycle: dict[str, Any] = {}
    cycle["me"] = cycle

    with pytest.raises(InvalidPayload, match="contains itself"):
        encode_args({"cycle": cycle})


def test_the_size_is_that_of_the_json_in_bytes() -> None:
    room = MAX_BYTES - len('{"a":""}')
    assert len(encode_args({"a": "x" * room})) == MAX_BYTES

    with pytest.raises(InvalidPayload, match="'b' is the largest"):
        encode_args({"a": 1, "b": "ü" * (room // 2)})


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"list": [0, {"deep": float("nan")}]}, r"a\['list'\]\[1\]\['deep'\]"),
        ([0, [1, 2**63]], r"a\[1\]\[1\]"),
        ({"k": "\0"}, r"a\['k'\]"),
        ({"k": ("\ud800",)}, r"a\['k'\]\[0\]"),
        ({1: 1}, "a: the key 1"),
    ],
    ids=repr,
)
def test_the_message_names_the_place(value: Any, where: str) -> None:
    with pytest.raises(InvalidPayload, match=where):
        encode_args({"fine": 1, "a": value})


def test_subclasses_of_plain_types_are_not_plain() -> None:
    class Text(str):
        pass

    with pytest.raises(InvalidPayload, match="Text"):
        encode_args({"a": Text("x")})


def test_a_tuple_is_a_list() -> None:
    assert encode_args({"a": (1, (2,))}) == '{"a":[1,[2]]}'


def test_a_result_has_its_own_limit() -> None:
    with pytest.raises(InvalidPayload, match="result"):
        encode_result("x" * 100, max_bytes=50)
    with pytest.raises(InvalidPayload, match="result"):
        encode_result(object())
