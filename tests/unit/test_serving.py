from __future__ import annotations

import pytest

from windlass.core.serving import EVERYTHING, Serves, kind_of
from windlass.core.task import Rules

SMALL = Serves(handlers=frozenset(["mail.send"]), labels=frozenset(["eu"]), slots=2, shut=frozenset(["bank"]))


@pytest.mark.parametrize(
    ("handler", "rules", "lacks"),
    [
        ("mail.send", Rules(), ""),
        ("mail.send", Rules(slots=2, requires=("eu",), downstream="post"), ""),
        ("mail.read", Rules(), "does not know the handler mail.read"),
        ("mail.send", Rules(requires=("gpu", "eu", "arm")), "lacks the tag arm, gpu"),
        ("mail.send", Rules(slots=3), "has 2 slots per worker and the task needs 3"),
    ],
)
def test_the_rule_says_what_is_missing(handler: str, rules: Rules, lacks: str) -> None:
    assert SMALL.lacks(handler, rules) == lacks
    assert SMALL.can_run(handler, rules) == (not lacks)
    assert EVERYTHING.can_run(handler, rules)


def test_a_shut_downstream_is_left_alone_and_only_one_may_be_asked_for() -> None:
    bank, post = Rules(downstream="bank"), Rules(downstream="post")

    assert [SMALL.can_run("mail.send", rules) for rules in (bank, post)] == [False, True]
    assert [Serves(only="bank").can_run("mail.send", rules) for rules in (bank, post, Rules())] == [True, False, False]


def test_a_kind_is_what_the_rule_looks_at_and_nothing_else() -> None:
    kind = kind_of("mail.send", Rules(requires=("eu", "arm")))

    assert kind == kind_of("mail.send", Rules(requires=("arm", "eu", "arm"), trace="00-1"))
    others = [Rules(), Rules(requires=("eu",)), Rules(slots=2), Rules(downstream="eu"), Rules(requires=("eu,arm",))]
    others += [Rules(memory=1), Rules(memory=2)]
    assert len({kind, kind_of("mail.read", Rules()), *(kind_of("mail.send", rules) for rules in others)}) == 9


def test_a_kind_has_the_same_number_in_every_process_and_fits_into_a_database() -> None:
    assert kind_of("mail.send", Rules()) == 9119760410750992519
    assert all(0 <= kind_of(str(number), Rules()) < 1 << 63 for number in range(100))
