from __future__ import annotations

from uuid import UUID

import pytest

from tests.unit.values import a_stored_task, an_id
from windlass.core.filter import allowed_states
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.task import Rules, TaskId
from windlass.errors import InvalidFilter, WindlassError

SECOND = 1_000_000
NOW = 1_794_830_400 * SECOND

TASK = a_stored_task(
    id=TaskId(UUID("01987d5e-0000-7000-8000-0000000000ab")),
    state=State.FAILED,
    queue="mail",
    tenant="acme",
    handler="render.page",
    workflow="nightly",
    key="welcome:42",
    args='{"order":{"id":42,"lines":[{"sku":"A-1"},{"sku":"B-2"}]},"tags":["red","big one"],"to":"Ann","ok":true,'
    '"x":1.5}',
    priority=-2,
    attempts=3,
    submitted=NOW - 600 * SECOND,
    reason="TimeoutError: no answer",
    rules=Rules(downstream="payments"),
)
BARE = a_stored_task(id=an_id(2), state=State.RUNNABLE, submitted=NOW)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "state:failed",
        "state:FAILED",
        "state:dead",
        "state:expired,failed",
        "-state:completed",
        "-state:completed,running",
        "queue:mail tenant:acme",
        "queue=mail",
        "queue:m*,other",
        "-tenant:demo",
        "handler:render*",
        "handler:*page",
        "handler:re*r.*e",
        "handler:render.page*",
        "task:render.*",
        "handler~PAGE",
        "handler~r*page",
        "workflow:nightly",
        "key:welcome:42",
        'key:"welcome:42"',
        'key:wel"come"*',
        "id:01987d5e-0000-7000-8000-0000000000ab",
        "id:01987D5E0000700080000000000000AB",
        "id:01987D5*",
        "downstream:payments",
        "args.order.id:42",
        "args.order.id:42.0",
        "args.order.id:4*",
        "args.order.id>41",
        "args.x:1.50",
        "args.x<=1.5",
        "args.order.lines.sku:B-2",
        "args.order.lines.0.sku:A-1",
        "args.tags:red",
        'args.tags:"big one"',
        "args.tags~ONE",
        "args.ok:true",
        "args.order~sku",
        "args.to:Ann",
        "-args.to:Bob",
        "-args.nothing:1",
        "age>5m",
        "age>=10m",
        "age<=10m",
        "age<1h",
        "attempts:3",
        "attempts:1,3",
        "attempts>=3 attempts<4 attempts>2",
        "priority<0",
        "priority>-5",
        "priority:-2",
        "crashes:0 losses:0",
        "error~timeout",
        "reason:TimeoutError*",
        "error~nothing,answer",
        '"no answer"',
        "NIGHTLY",
        "nobody,ann",
        "-nobody",
        "b-2",
        "01987d5e",
    ],
)
def test_it_finds_the_task(text: str) -> None:
    assert parse(text).matches(TASK, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "state:completed",
        "-state:failed",
        "state:failed -state:failed",
        "queue:Mail",
        "queue:mai",
        'queue:"m*"',
        "tenant:demo",
        "-tenant:acme,demo",
        "handler:render",
        "handler:*render",
        "handler:page*render*",
        "handler:render.page*page",
        "handler:render*page*page",
        "workflow:weekly",
        'workflow:""',
        "key:welcome",
        "id:01987d5e-0000-7000-8000-0000000000ac",
        "args.order.id:43",
        "args.order.id>42",
        "args.order:42",
        "args.order.lines.2.sku:A-1",
        "args.order.lines.99999999999:A-1",
        "args.to.name:Ann",
        "args.to>1",
        "args.ok>=1",
        "args.nothing:1",
        "args.ok:1",
        "-args.to:Ann",
        "age>10m",
        "age<10m",
        "-age>5m",
        "attempts>3",
        "attempts:1,2",
        "priority>=0",
        "error~refused",
        "nobody",
        "-nightly",
    ],
)
def test_it_passes_the_task_over(text: str) -> None:
    assert not parse(text).matches(TASK, NOW)


def test_what_a_task_does_not_have_is_empty_text() -> None:
    assert parse('workflow:"" key:"" error:"" downstream:""').matches(BARE, NOW)
    assert not parse("error~timeout").matches(BARE, NOW)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  state:DEAD,ready   queue=mail ", "state:failed,runnable queue:mail"),
        ("task:a* reason~b", "handler:a* error~b"),
        ("age>90m age<=0.5s", "age>1h30m age<=500ms"),
        ("age<1w age>0s", "age<7d age>0s"),
        ('"one" "two words" -"-three"', 'one "two words" -"-three"'),
        ('key:"a\\"b\\\\c" key:"*"', 'key:"a\\"b\\\\c" key:"*"'),
        ('key:a"b c"*d', 'key:"ab c"*d'),
        ("key:a\\b", 'key:"a\\\\b"'),
        ("attempts:+3", None),
        ("args.x>1e3", "args.x>1000.0"),
        ("id:01987D5E000070008000000000AB00AB", "id:01987d5e-0000-7000-8000-000000ab00ab"),
    ],
)
def test_it_has_one_way_to_be_written(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(InvalidFilter):
            parse(text)
        return
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "position", "fault"),
    [
        ("queue:a stat:b", 8, 'unknown field "stat"; did you mean state? or quote it to search for text'),
        ("-stat:b", 1, 'unknown field "stat"; did you mean state? or quote it to search for text'),
        ("http://a", 0, 'unknown field "http"; use one of state, queue'),
        ("args.:1", 0, 'unknown field "args."'),
        ("args.a..b:1", 0, 'unknown field "args.a..b"'),
        ("state:oops", 6, '"oops" is not a state; use one of waiting, scheduled, runnable'),
        ("state:f*", 6, '"f*" is not a state'),
        ("state~fail", 5, "state does not take ~; use states, as in state:failed,expired"),
        ("queue>3", 5, "queue does not take >; match text, as in queue:a* or queue~a"),
        ("attempts~3", 8, "attempts does not take ~; compare it, as in attempts>=3"),
        ("age:10m", 3, "age does not take :; compare it, as in age>10m"),
        ("age>ten", 4, '"ten" is not an age; use one such as 30s, 10m, 2h or 1d'),
        ("age>600", 4, '"600" is not an age'),
        ("age>9999999d", 4, '"9999999d" is not an age'),
        ("attempts>x", 9, '"x" is not a number; attempts takes one such as 3'),
        ("attempts>1.5", 9, '"1.5" is not a number'),
        ("attempts>1,2", 9, "attempts> takes one value, 2 were given; leave out the commas"),
        ("args.x>much", 7, '"much" is not a number; args.x takes one such as 3'),
        ("id:12", 3, '"12" is not an id; use a full one, or its start and a star: id:0198*'),
        ("key:", 4, 'a value is missing; add one, or "" for an empty value'),
        ("key:a,,b", 6, "a value is missing"),
        (",", 0, "a value is missing"),
        ('key:"a', 4, 'this quote is not closed; end it with "'),
        ('key:"a\\', 4, "this quote is not closed"),
        ("a -", 2, "- excludes nothing; write it directly before a condition, or quote it as text"),
        ("- a", 0, "- excludes nothing"),
        ("a >5", 2, "no field before >; add one, or quote it as text"),
        ('""', 0, "empty text matches nothing; leave it out"),
        ("a\0b", 1, "'\\x00' cannot occur in a task; leave it out"),
        ("a\ud800", 1, "'\\ud800' cannot occur in a task; leave it out"),
        ("a" * 4_001, 4_000, "over 4,000 characters; use fewer"),
        ("a " * 51, 100, "over 50 conditions; use fewer"),
        ("key:" + ",".join("a" * 201), 405, "over 200 values; use fewer"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place_and_what_would_be_right(
    text: str, position: int, fault: str
) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse(text)

    assert (caught.value.position, caught.value.code) == (position, "invalid_filter")
    assert caught.value.fault.startswith(fault)
    assert str(caught.value).startswith(f"Invalid filter at character {position + 1}: ")
    assert isinstance(caught.value, WindlassError | ValueError)


def test_it_says_which_names_and_states_a_match_can_have() -> None:
    query = parse("queue:a,b queue:b,c tenant:x* -handler:h -state:failed state:failed,leased workflow~w")

    assert query.names("queue") == {"b"}
    assert query.names("tenant") is query.names("handler") is query.names("workflow") is None
    assert allowed_states(query) == {State.LEASED}
    assert allowed_states(parse("")) == frozenset(State)


def test_it_says_when_a_match_was_submitted() -> None:
    since, before = parse("age<10m age<=5m -age>1m").submitted(NOW)
    assert (since, before > NOW) == (NOW - 300 * SECOND, True)
    assert parse("age<5m").submitted(NOW)[0] == NOW - 300 * SECOND + 1
    assert parse("age>=5m").submitted(NOW)[1] == NOW - 300 * SECOND + 1

    since, before = parse("age>10m age>=5m").submitted(NOW)
    assert (since < 0, before) == (True, NOW - 600 * SECOND)
