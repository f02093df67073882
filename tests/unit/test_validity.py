from __future__ import annotations

from tests.unit.values import an_id
from windlass.worker.worker_main import Validity


def test_a_session_is_valid_until_the_latest_report() -> None:
    validity = Validity()
    validity.extend(an_id(1), 100.0)

    validity.extend(an_id(1), 103.0)

    assert validity.until(an_id(1)) == 103.0
    assert validity.until(an_id(2)) == 0.0, "nothing is known about this session"


def test_a_report_that_was_overtaken_changes_nothing() -> None:
    validity = Validity()
    validity.extend(an_id(1), 103.0)

    validity.extend(an_id(1), 100.0)

    assert validity.until(an_id(1)) == 103.0
