"""Keys of limits that are made from a task's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.limit_keys import check_template, fill_key, find_placeholders, make_key, refuse_secrets
from windlass.core.task import NewTask
from windlass.errors import InvalidTask


def test_arguments_replace_placeholders() -> None:
    assert make_key("customer:{customer}/{region}", {"customer": 42, "region": "eu", "n": 1}) == "customer:42/eu"
    assert make_key("all", {}) == "all"


def test_a_task_gets_its_key_once() -> None:
    new = NewTask(handler="h", args={"n": "{n}"}, limit="k:{n}", max_running=1)

    assert fill_key(new).limit == "k:{n}"
    assert fill_key(NewTask(handler="h", limit="k")).limit == "k"
    assert fill_key(NewTask(handler="h")).limit is None


@pytest.mark.parametrize("template", ["{", "a}", "{a", "{{a}}", "{}", "a{b{c}}"])
def test_other_braces_are_refused(template: str) -> None:
    with pytest.raises(InvalidTask, match="limit="):
        find_placeholders(template)


@pytest.mark.parametrize("value", [True, None, 1.5, ["a"], {"$task": "x"}])
def test_a_key_is_made_of_text_and_integers(value: Any) -> None:
    with pytest.raises(InvalidTask, match=r"limit='k:\{n\}': n=.* is a "):
        make_key("k:{n}", {"n": value})


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(InvalidTask, match="pass the argument n"):
        make_key("k:{n}", {"m": 1})


def test_placeholders_must_be_arguments_that_every_task_has() -> None:
    check_template("k:{a}:{b}", {"a", "b", "c"})
    check_template("k:{other}", {"a"}, is_open=True)
    with pytest.raises(InvalidTask, match=r"\{d\} is not a parameter without a default.*\(a, b\)"):
        check_template("k:{a}:{d}", {"b", "a"})


def test_secrets_are_refused() -> None:
    refuse_secrets("k:{a}", lambda name: name == "b")
    with pytest.raises(InvalidTask, match="b is a secret"):
        refuse_secrets("k:{a}:{b}", lambda name: name == "b")
