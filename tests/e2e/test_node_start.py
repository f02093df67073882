"""Apps that cannot be served: the error is clear, comes at once, and causes no busy loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.nodes import NodeProcess, gone
from tests.support.processes import until

pytestmark = pytest.mark.slow


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Start nodes of an app whose module has this text."""
    with ExitStack() as nodes:

        def start(text: str, *flags: str, url: str | None = None, **variables: str) -> NodeProcess:
            (tmp_path / "odd_app.py").write_text(text)
            where = {"app": "odd_app:app", "PYTHONPATH": str(tmp_path), **variables}
            url = f"sqlite:///{tmp_path / 'windlass.db'}" if url is None else url
            return nodes.enter_context(NodeProcess(url, tmp_path / "effects.jsonl", "-n", "1", *flags, **where))

        yield start


def test_an_app_that_cannot_be_imported_is_shown_with_its_own_frames(serve: Callable[..., NodeProcess]) -> None:
    node = serve("def configure():\n    raise RuntimeError('no settings')\n\nconfigure()\n")

    assert node.process.wait(30) == 3

    assert "odd_app:app could not be imported: RuntimeError: no settings" in node.log
    assert "in configure" in node.log
    assert "importlib" not in node.log


def test_a_missing_app_is_named(serve: Callable[..., NodeProcess]) -> None:
    node = serve("app = 7\n")

    assert node.process.wait(30) == 3

    assert "odd_app:app" in node.log
    assert "App" in node.log


def test_an_app_that_starts_threads_on_import_gets_an_error_with_the_right_place(
    serve: Callable[..., NodeProcess],
) -> None:
    thread = "threading.Thread(target=threading.Event().wait, name='pump', daemon=True).start()"
    node = serve(f"import threading, windlass\napp = windlass.App()\n{thread}\n")

    assert node.process.wait(30) == 3

    assert "started threads (pump)" in node.log
    assert "on_worker_start" in node.log


def test_a_start_hook_that_raises_is_reported_and_retried_with_back_off(
    serve: Callable[..., NodeProcess],
) -> None:
    hook = "@app.on_worker_start\ndef load():\n    raise RuntimeError('no model here')\n"
    node = serve(f"import windlass\napp = windlass.App()\n{hook}")

    node.await_event("WorkerParentFailed")
    first_at = time.monotonic()
    broken = node.await_event("WorkerParentFailed", 5)

    assert time.monotonic() - first_at > 0.5, "the starts are 0, 0.1, 0.2 and 0.4 seconds apart"
    assert all("a start hook failed" in each["why"] and "no model here" in each["why"] for each in broken)
    assert node.terminate(10) == 0


def test_an_app_whose_import_exits_the_process_is_named_at_once(serve: Callable[..., NodeProcess]) -> None:
    node = serve("import os\nos._exit(7)\n")

    assert node.process.wait(10) == 3

    assert "odd_app:app could not be imported" in node.log
    assert "status 7" in node.log


def test_a_node_serves_the_store_that_its_app_names(serve: Callable[..., NodeProcess], tmp_path: Path) -> None:
    own = f"sqlite:///{tmp_path / 'own.db'}"
    node = serve(f"import windlass\napp = windlass.App({own!r})\n", url="")

    [started] = node.await_event("NodeStarted")

    assert started["store"] == f"{own} (odd_app:app)"
    assert (tmp_path / "own.db").exists()


def test_a_node_with_another_store_than_its_app_does_not_start(
    serve: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    node = serve(f"import windlass\napp = windlass.App('sqlite:///{tmp_path / 'own.db'}')\n")

    assert node.process.wait(30) == 2

    assert f"{tmp_path / 'own.db'} (odd_app:app)" in node.log
    assert f"{tmp_path / 'windlass.db'} ($WINDLASS_URL)" in node.log
    assert not list(tmp_path.glob("*.db"))


def test_a_memory_store_is_refused_for_a_node(serve: Callable[..., NodeProcess]) -> None:
    node = serve("import windlass\napp = windlass.App('memory:')\n", url="")

    assert node.process.wait(30) == 2

    assert "a memory store lives in one process" in node.log


def test_a_process_that_the_app_starts_on_import_outlives_workers_but_not_the_node(
    serve: Callable[..., NodeProcess],
) -> None:
    child = "print('helper', subprocess.Popen(['sleep', '60']).pid, flush=True)"
    node = serve(f"import subprocess, windlass\napp = windlass.App()\n{child}\n")
    node.await_workers()
    helper = int(node.log.split("helper ")[1].split()[0])

    [worker] = [child for child in node.worker_parent().children() if child.pid != helper]
    worker.kill()
    node.await_workers(2)
    survived = not gone(helper)
    node.terminate(10)

    assert survived
    assert gone(helper)


def test_a_node_that_is_terminated_while_it_imports_its_app_exits(
    serve: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    node = serve(f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(2)\nimport windlass\n")
    until(begun.exists, "the import has started")
    node.worker_parent().terminate()  # as a service manager does with all processes

    assert node.terminate(10) == 0

    assert "Traceback" not in node.log
