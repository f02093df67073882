"""Registering functions, and enqueuing them with options."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from windlass import App, InvalidTask, KeyConflict, OnFailure, Retry
from windlass.clock import ManualClock
from windlass.core.times import to_datetime
from windlass.testing import drain


def test_a_handler_is_still_a_function(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    @app.task(queue="q")
    async def halve(n: int) -> int:
        return n // 2

    assert double(4) == 8
    assert asyncio.run(halve(4)) == 2
    assert double.__doc__ == "Twice."
    assert double.__name__ == "double"
    assert list(app.handlers) == [
        "tests.api.test_handlers.test_a_handler_is_still_a_function.double",
        "tests.api.test_handlers.test_a_handler_is_still_a_function.halve",
    ]


def test_every_callable_can_be_a_handler(app: App) -> None:
    def power(base: int, exponent: int) -> int:
        return base**exponent

    @App("memory:").task
    async def elsewhere(n: int) -> int:
        return n

    squares = app.task(name="square")(partial(power, exponent=2))
    here = app.task(elsewhere)
    with pytest.raises(InvalidTask, match=r"has no name\. Pass name="):
        app.task(partial(power, exponent=3))
    handle, other = squares.enqueue(5), here.enqueue(6)
    drain(app)

    assert handle.result(0) == 25
    assert other.result(0) == 6


def test_a_second_handler_with_the_same_name_raises_an_error(app: App) -> None:
    @app.task(name="work")
    def first() -> None: ...

    with pytest.raises(InvalidTask, match="Handler name 'work' is taken"):

        @app.task(name="work")
        def second() -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queue": "no spaces"}, "queue='no spaces' is not a valid name"),
        ({"timeout": "soon"}, "timeout='soon' is not a duration"),
        ({"timeout": 0}, "timeout=datetime.timedelta(0) is not a time limit"),
        ({"retries": -1}, "retry.retries=-1 is not an integer from 0"),
        ({"slots": 0}, "slots=0 is not an integer from 1"),
        ({"name": "a b"}, "handler='a b' is not a valid name"),
    ],
    ids=str,
)
def test_invalid_options_raise_an_error_when_the_handler_is_registered(
    app: App, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidTask) as refusal:
        app.task(**options)(lambda: None)

    assert str(refusal.value).startswith(says)


def test_an_unknown_option_raises_an_error_that_lists_the_options(app: App) -> None:
    with pytest.raises(TypeError, match=r"Unknown option 'colour'\. The options are admit, after, at"):
        app.task(colour="red")(lambda: None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_a_generator_function_cannot_be_a_handler(app: App) -> None:
    with pytest.raises(InvalidTask, match="is a generator"):

        @app.task
        def numbers() -> Iterator[int]:
            yield 1


def test_every_option_reaches_the_task(app: App, clock: ManualClock) -> None:
    @app.task(queue="mail", retries=5, timeout="30s", soft_timeout=20, heartbeat_timeout=timedelta(seconds=5))
    def send(to: str) -> None: ...

    first = send.enqueue("first")
    at = datetime(2030, 1, 1, tzinfo=UTC)
    options = send.using(
        priority=5, deadline="10m", at=at, expires="400w", tenant="acme", slots=2, requires=["gpu"], downstream="smtp"
    )
    task = options.enqueue("a@b.c").task()
    dependent = send.using(after=[first], on_failure="run", workflow="w", key="k").enqueue("b").task()

    assert (task.queue, task.priority, task.tenant) == ("mail", 5, "acme")
    assert task.deadline is not None
    assert abs(task.deadline - to_datetime(clock.now()) - timedelta(minutes=10)) < timedelta(milliseconds=1)
    assert (task.due, task.args) == (at, {"to": "a@b.c"})
    assert task.rules.retry == Retry(retries=5)
    assert task.rules.timeout == timedelta(seconds=30)
    assert task.rules.soft_timeout == timedelta(seconds=20)
    assert task.rules.heartbeat_timeout == timedelta(seconds=5)
    assert (task.rules.slots, task.rules.requires, task.rules.downstream) == (2, ("gpu",), "smtp")
    assert (dependent.state, dependent.on_failure) == ("waiting", OnFailure.RUN)
    assert (dependent.workflow, dependent.key) == ("w", "k")


def test_a_handler_can_declare_at_most_once(app: App) -> None:
    @app.task(at_most_once=True, timeout="30s")
    def pay(order: int) -> None: ...

    @app.task(max_crashes=5)
    def draw(picture: int) -> None: ...

    rules = pay.enqueue(1).task().rules

    assert (rules.at_most_once, rules.retry.retries, rules.max_crashes) == (True, 0, 0)
    assert pay.using(at_most_once=False).enqueue(2).task().rules.retry == Retry()
    assert draw.enqueue(1).task().rules.max_crashes == 5
    assert draw.using(at_most_once=True, max_crashes=0).enqueue(1).task().rules.at_most_once


@pytest.mark.parametrize("retries", [3, 5])
def test_at_most_once_excludes_retries(app: App, retries: int) -> None:
    """Also if the number of retries is the default."""
    message = f"retries={retries} and at_most_once=True contradict each other. Leave out one of them."
    with pytest.raises(InvalidTask, match=message):

        @app.task(at_most_once=True, retries=retries)
        def pay() -> None: ...

    @app.task(retries=retries)
    def draw() -> None: ...

    with pytest.raises(InvalidTask, match=message):
        draw.using(at_most_once=True)
    assert draw.using(at_most_once=True, retries=0).enqueue().task().rules.at_most_once


def test_using_does_not_change_the_handler(app: App) -> None:
    @app.task(priority=1)
    def send() -> None: ...

    urgent = send.using(priority=9)

    assert urgent.using(tenant="acme").enqueue().task().priority == 9
    assert send.enqueue().task().priority == 1


def test_the_same_key_is_the_same_task_and_a_different_body_conflicts(app: App) -> None:
    @app.task
    def send(to: str) -> None: ...

    once = send.using(key="welcome:42")

    assert once.enqueue("a").id == once.enqueue("a").id
    with pytest.raises(KeyConflict):
        once.enqueue("b")


def test_many_calls_are_read_lazily_in_atomic_chunks(app: App) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    def calls() -> Iterator[Any]:
        for n in range(2_500):
            if n == 2_400:
                raise ConnectionError("the source broke")
            yield work.bind(n)

    with pytest.raises(ConnectionError) as broken:
        app.enqueue_many(calls())

    assert broken.value.__notes__ == ["2,000 tasks were enqueued before this error; the rest were not."]
    assert sum(count.tasks for count in app.store.counts()) == 2_000


def test_enqueue_many_returns_handles_in_order(app: App) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    async def source() -> AsyncIterator[Any]:
        for n in range(5):
            yield work.bind(n)

    handles = app.enqueue_many(work.bind(n) for n in range(1_005))
    more = asyncio.run(app.aenqueue_many(source()))
    even_more = asyncio.run(app.aenqueue_many([work.bind(7)]))
    drain(app)

    assert [handle.result(0) for handle in handles] == list(range(1_005))
    assert [handle.result(0) for handle in more] == list(range(5))
    assert [handle.result(0) for handle in even_more] == [7]


def test_a_cron_is_checked_when_it_is_registered(app: App) -> None:
    @app.cron("0 6 * * 1-5", tz="Europe/Berlin")
    def daily() -> None: ...

    @app.cron("*/5 * * * *", name="often", misfire="skip", args={"n": 2})
    @app.task(queue="q")
    def work(n: int) -> None: ...

    crons = {cron.name: cron for cron in app.manifest().crons}
    assert crons[daily.name].timezone == "Europe/Berlin"
    assert (crons["often"].handler, crons["often"].args, crons["often"].misfire) == (work.name, '{"n":2}', "skip")
    for bad in ("61 * * * *", "* * *", "0 0 30 2 *"):
        with pytest.raises(InvalidTask, match="is not a schedule"):
            app.cron(bad, name="bad")(lambda: None)
    with pytest.raises(InvalidTask, match="tz='Mars/Base' is not a time zone"):
        app.cron("* * * * *", tz="Mars/Base", name="mars")(work)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        app.cron("* * * * *", name="no arguments")(work)


def test_hooks_keep_their_order(app: App) -> None:
    @app.on_worker_start
    def load() -> None: ...

    @app.on_worker_stop
    def save() -> None: ...

    assert (app.start_hooks, app.stop_hooks) == ([load], [save])


def test_the_store_is_opened_on_first_use(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    app = App(f"sqlite:///{file}")

    @app.task
    def work() -> None: ...

    assert not file.exists()
    work.enqueue()
    assert file.exists()
    app.close()


IN_A_FORK = """
import os, sys
from windlass import App

app = App(sys.argv[1])

@app.task(name="work")
def work(n: int) -> None: ...

work.enqueue(1)
pid = os.fork()
if pid == 0:
    work.enqueue(2)
    app.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
work.enqueue(3)
assert status == 0, status
assert [count.tasks for count in app.store.counts()] == [3]
app.close()
"""


def test_an_app_can_be_used_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IN_A_FORK, f"sqlite:///{tmp_path / 'tasks.db'}"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stderr


BOUND = """
from windlass import App, NotAllowed
from windlass.client.app import bind_all, forbid_stores
from windlass.wiring import open_store

early = App("postgresql://nowhere.invalid/x")

@early.task(name="work")
def work() -> None: ...

forbid_stores("only imported here")
try:
    work.enqueue()
except NotAllowed as refusal:
    assert str(refusal) == "only imported here"
else:
    raise AssertionError

made = []
def make():
    made.append(open_store("memory:"))
    return made[0]

bind_all(make)
late = App()
work.enqueue()
assert late.store is early.store is made[0] and len(made) == 1
"""


def test_in_a_worker_every_app_is_bound_and_no_url_is_resolved(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", BOUND], check=False, capture_output=True, text=True, cwd=tmp_path)

    assert run.returncode == 0, run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_names_its_handlers_as_if_it_were_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import windlass\napp = windlass.App()\n@app.task\ndef pay(): ...\nprint(list(app.handlers))\n"
    )

    runs = [
        subprocess.run([sys.executable, *how], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
        for how in (["shop.py"], ["-m", "shop"], ["-c", "import shop"])
    ]

    assert runs == ["['shop.pay']\n"] * 3


def test_importing_an_app_imports_neither_the_controller_nor_the_simulator() -> None:
    """A process that only enqueues must not pay for these imports."""
    program = "import sys, windlass; windlass.App; print([name for name in sys.modules if 'autoscale' in name])"

    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert run.stdout.strip() == "[]"
