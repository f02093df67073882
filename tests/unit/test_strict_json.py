"""Strict JSON: what other parsers would read in different ways is refused, at a cost that grows with the text."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import Refused
from windlass.wire.strict_json import decode_json


def test_a_duplicate_name_is_refused_at_any_depth() -> None:
    with pytest.raises(Refused, match="duplicate name 'b'"):
        decode_json(b'{"a": [{"b": 1, "c": 2, "b": 3}]}', Any)


def test_a_duplicate_among_very_many_names_is_found_in_one_pass() -> None:
    names = ",".join(f'"n{number}":0' for number in range(500_000))  # Comparing all pairs would take many minutes.

    with pytest.raises(Refused, match="duplicate name 'n499999'"):
        decode_json(f'{{{names},"n499999":1}}'.encode(), Any)
