from __future__ import annotations

from tests.unit.values import an_id
from windlass.worker.worker_main import Validity


def test_an_attempt_starts_only_while_its_session_is_certainly_valid() -> None:
    validity = Validity()
    validity.extend(an_id(1), 100.0)

    assert validity.covers(an_id(1), 99.9)
    assert not validity.covers(an_id(1), 100.0)
    assert not validity.covers(an_id(2), 0.0), "nothing is known about this session"


def test_a_renewal_lets_attempts_start_again() -> None:
    validity = Validity()
    validity.extend(an_id(1), 100.0)

    validity.extend(an_id(1), 103.0)

    assert validity.covers(an_id(1), 102.0)
