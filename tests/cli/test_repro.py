"""`windlass repro`, in its own process each time: it binds every app of the process to a read-only store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import open_store
from windlass.cli.replay import NOBODY
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.stores.protocol import Filter, Store

APP = """
import asyncio
import windlass

app = windlass.App()

@app.task(retries=0)
def divide(a: int, b: int, password: str = "") -> float:
    print("dividing", a)
    windlass.current().progress(0.5, "half")
    return a / b

@app.task(retries=0)
async def later(a: int) -> int:
    await asyncio.sleep(0)
    return a + seen.count("start")

@app.task
def first() -> int:
    return 20

@app.task
def hide() -> windlass.Secret[str]:
    return "hunter2"

@app.task
def enqueues() -> None:
    first.enqueue()

@app.task(retries=1)
def describe() -> list[object]:
    context = windlass.current()
    return [context.attempt, str(context.task_id), context.cancelled, str(context.lease.session)]

seen: list[str] = []

@app.on_worker_start
def start() -> None:
    seen.append("start")
"""
DRAIN = "from shop import *\nfrom windlass.testing import drain\n{}\ndrain(app)"


class Shop:
    """An app in a folder, and its store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "WINDLASS_URL": f"sqlite:///{folder / 'tasks.db'}"}
        (folder / "shop.py").write_text(APP)
        self.store: Store = open_store(str(folder / "tasks.db"))

    def python(self, code: str) -> None:
        """Run code of the app, then run all enqueued tasks."""
        command = [sys.executable, "-c", DRAIN.format(code)]
        subprocess.run(command, cwd=self.folder, env=self.env, check=True, capture_output=True, timeout=60)

    def newest(self) -> str:
        return str(self.store.find(Filter(), limit=1).tasks[0].id)

    def repro(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "windlass", "repro", *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, input=stdin, check=False, timeout=60
        )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.store.close()


def rows(store: Store) -> object:
    """Return everything that a repro might change."""
    tasks = store.find(Filter(), limit=1_000).tasks
    sessions = [session.id for session in store.sessions()]
    return tasks, [store.attempts(task.id) for task in tasks], store.counts(), store.audit(), sessions


def test_the_bug_is_reproduced_and_nothing_is_written(shop: Shop) -> None:
    shop.python("divide.enqueue(1, 0, password='hunter2')")
    before = rows(shop.store)
    assert shop.store.find(Filter()).tasks[0].state is State.FAILED

    done = shop.repro(shop.newest(), "shop:app")

    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "dividing 1" in done.stderr
    assert "progress: 50% half" in done.stderr
    assert 'shop.py", line' in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "Reproduced: the same bug (" in done.stderr
    assert "replay.py" not in done.stderr
    assert "hunter2" not in done.stderr
    assert rows(shop.store) == before


def test_a_fixed_handler_returns_and_the_task_stays_failed(shop: Shop) -> None:
    shop.python("divide.enqueue(6, 0)")
    source = shop.folder / "shop.py"
    source.write_text(source.read_text().replace("return a / b", "return a / (b or 3)"))

    done = shop.repro(shop.newest(), "shop:app")

    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
    assert "The handler returned. The last failed attempt ended with an error." in done.stderr
    assert shop.store.find(Filter()).tasks[0].state is State.FAILED


def test_another_error_is_not_the_same_bug(shop: Shop) -> None:
    shop.python("divide.enqueue(6, 0)")
    source = shop.folder / "shop.py"
    source.write_text(source.read_text().replace("return a / b", "raise KeyError(a)"))

    assert "The handler raised another error" in shop.repro(shop.newest(), "shop:app").stderr


def test_results_of_other_tasks_are_filled_into_the_arguments(shop: Shop) -> None:
    shop.python("with app.workflow('w') as wf:\n    wf.add(divide, wf.add(first), 4)")
    [task] = shop.store.find(Filter(handler="shop.divide")).tasks

    assert shop.repro(str(task.id), "shop:app").stdout == "5.0\n"


def test_a_coroutine_runs_after_the_start_hooks(shop: Shop) -> None:
    shop.python("later.enqueue(4)")

    assert shop.repro(shop.newest(), "shop:app").stdout == "5\n"


def test_a_handler_cannot_enqueue(shop: Shop) -> None:
    shop.python("enqueues.using(delay='1h').enqueue()")
    before = rows(shop.store)

    done = shop.repro(shop.newest(), "shop:app")

    assert done.returncode == 1
    assert "submit: this store is open for reading only" in done.stderr
    assert "The handler tried to write to the store" in done.stderr
    assert rows(shop.store) == before


def test_the_handler_sees_the_attempt_that_is_reproduced(shop: Shop) -> None:
    shop.python("describe.enqueue()")
    id = shop.newest()

    shown = json.loads(shop.repro(id, "shop:app", "--json").stdout)

    assert shown["result"] == [1, id, False, str(NOBODY)], "a lease that the store never granted"
    assert (shown["task"], shown["handler"], shown["attempt"]) == (id, "shop.describe", 1)
    assert (shown["returned"], shown["error"], shown["same_bug"]) == (True, None, None)


def test_json_has_the_parts_of_an_error(shop: Shop) -> None:
    shop.python("divide.enqueue(1, 0)")

    done = shop.repro(shop.newest(), "shop:app", "--json")
    shown = json.loads(done.stdout)

    assert (done.returncode, shown["returned"], shown["same_bug"]) == (1, False, True)
    assert (shown["error"]["kind"], shown["error"]["message"]) == ("ZeroDivisionError", "division by zero")


def test_the_debugger_opens_where_the_error_was_raised(shop: Shop) -> None:
    shop.python("divide.enqueue(7, 0)")

    done = shop.repro(shop.newest(), "shop:app", "--pdb", stdin="p (a, b)\nq\n")

    assert "(7, 0)" in done.stdout
    assert "return a / b" in done.stdout


def test_arguments_that_no_longer_fit_are_reported(shop: Shop) -> None:
    shop.python("divide.enqueue(1, 2)")
    source = shop.folder / "shop.py"
    source.write_text(source.read_text().replace("a: int, b: int, password", "a: int, b: list[int], password"))

    done = shop.repro(shop.newest(), "shop:app")

    assert (done.returncode, "The arguments do not fit the handler" in done.stderr) == (1, True), done.stderr


def test_the_app_of_the_settings_file_is_the_default(shop: Shop) -> None:
    shop.python("divide.enqueue(1, 2)")
    without = shop.repro(shop.newest())
    (shop.folder / "windlass.yaml").write_text("app: shop:app\n")

    assert (without.returncode, "No app. Name it" in without.stderr) == (2, True)
    assert shop.repro(shop.newest()).stdout == "0.5\n"


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("nowhere:app", 3, "nowhere:app could not be imported: ModuleNotFoundError"),
        ("other:app", 2, "is not in this app"),
    ],
)
def test_a_wrong_app_is_refused(shop: Shop, target: str, status: int, message: str) -> None:
    shop.python("divide.enqueue(1, 2)")
    (shop.folder / "other.py").write_text("import windlass\napp = windlass.App()\n")

    done = shop.repro(shop.newest(), target)

    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_an_app_that_enqueues_on_import_is_refused(shop: Shop) -> None:
    shop.python("divide.enqueue(1, 2)")
    with (shop.folder / "shop.py").open("a") as source:
        source.write("\ndivide.enqueue(3, 4)\n")

    done = shop.repro(shop.newest(), "shop:app")

    assert (done.returncode, "this store is open for reading only" in done.stderr) == (3, True), done.stderr
    assert len(shop.store.find(Filter()).tasks) == 1


def test_an_unknown_task_is_refused(shop: Shop) -> None:
    assert shop.repro("01a31938-0a00-7000-80e6-0c9691e4aab9", "shop:app").returncode == 4


@pytest.mark.parametrize("code", ["hide.enqueue()", "first.enqueue()"], ids=["own schema", "published schema"])
def test_a_secret_result_is_not_printed(shop: Shop, code: str) -> None:
    shop.python(code)
    published = HandlerInfo(name="shop.first", returns='{"type": "integer", "x-secret": true}')
    shop.store.publish(Manifest(handlers=(published,)))

    done = shop.repro(shop.newest(), "shop:app")

    assert (done.returncode, done.stdout) == (0, '"[redacted]"\n'), done.stderr
