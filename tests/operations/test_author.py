"""The author of a change in the audit log."""

from __future__ import annotations

import pytest

from windlass.operations.author import Author


@pytest.mark.parametrize("person", ["ann", "a" * 128, "root (admin)" + "x" * 116])
@pytest.mark.parametrize("token", ["ci", "t" * 100])
def test_the_name_of_a_token_cannot_be_pushed_out(token: str, person: str) -> None:
    by = Author(token, acting_for=person).by

    assert by.endswith(f" ({token})")
    assert by.startswith(person[:20])
    assert len(by) <= 128


@pytest.mark.parametrize("length", [125, 126, 128])
def test_a_token_with_a_very_long_name_stays_whole(length: int) -> None:
    by = Author("t" * length, acting_for="ann").by

    assert "t" * length in by
    assert len(by) <= 128
