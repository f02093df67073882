"""Hooks of every attempt: their order, their errors, and where they run."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from windlass import App, Retry, State, current
from windlass.testing import drain


def test_hooks_run_before_after_and_around_every_attempt(app: App) -> None:
    seen: list[str] = []

    @app.before_task
    def before() -> None:
        seen.append(f"before {current().attempt}")

    @app.after_task
    def after() -> None:
        seen.append("after")

    @app.around_task
    @contextmanager
    def around() -> Generator[None]:
        seen.append("begin")
        try:
            yield
        finally:
            seen.append("end")

    @app.task(name="plain", retry=Retry(retries=0))
    def plain(fail: bool) -> None:
        seen.append("run")
        if fail:
            raise ValueError("oops")

    @app.task(name="coroutine")
    async def coroutine() -> None:
        seen.append("run")

    good, bad, later = plain.enqueue(False), plain.enqueue(True), coroutine.enqueue()
    drain(app)

    assert seen == ["before 1", "begin", "run", "end", "after"] * 3
    assert (good.state, bad.state, later.state) == (State.COMPLETED, State.FAILED, State.COMPLETED)


def test_what_a_hook_before_a_task_raises_is_the_error_of_the_attempt(app: App) -> None:
    ran: list[str] = []
    app.after_task(lambda: ran.append("after"))

    @app.before_task
    def refuse() -> None:
        raise RuntimeError("no connection")

    @app.task(name="work", retry=Retry(retries=0))
    def work() -> None:
        ran.append("work")

    handle = work.enqueue()
    drain(app)

    assert (handle.state, ran) == (State.FAILED, ["after"])
    assert "no connection" in (handle.task().reason or "")


def test_what_a_hook_after_a_task_raises_is_only_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.after_task
    def broken() -> None:
        raise RuntimeError("cannot close")

    @app.task(name="work")
    def work() -> int:
        return 7

    handle = work.enqueue()
    with caplog.at_level(logging.ERROR):
        drain(app)

    assert handle.result(0) == 7
    assert "broken" in caplog.text
    assert "cannot close" in caplog.text


def test_an_around_hook_can_see_and_replace_the_error(app: App) -> None:
    @app.around_task
    @contextmanager
    def translate() -> Generator[None]:
        try:
            yield
        except KeyError as error:
            raise LookupError("translated") from error

    @app.task(name="work", retry=Retry(retries=0))
    def work() -> None:
        raise KeyError("x")

    handle = work.enqueue()
    drain(app)

    assert "LookupError: translated" in (handle.task().reason or "")
