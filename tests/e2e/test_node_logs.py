"""What a node writes: JSON lines in a file, lines for people on a terminal, and what a terminal does to it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.processes import until

pytestmark = pytest.mark.slow

APP = """
import logging, sys, threading, time, windlass

app = windlass.App()
log = logging.getLogger("shop")


@app.task(name="fail", retries=0)
def fail() -> None:
    log.info("before it fails")
    thread = threading.Thread(target=lambda: log.info("from a thread"))
    thread.start()
    thread.join()
    print("on stderr", file=sys.stderr)
    raise ValueError("no such address")


@app.task(name="work")
def work(seconds: float) -> None:
    time.sleep(seconds)
"""
WORKER = [sys.executable, "-m", "windlass", "worker", "logged_app:app", "-n", "1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logged_app.py").write_text(APP)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "WINDLASS_URL": f"sqlite:///{folder / 'tasks.db'}", "TERM": "xterm"}


def windlass(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "windlass", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), check=True, capture_output=True, text=True
    ).stdout.strip()


def test_every_line_of_the_log_is_json_and_shows_ends_errors_and_logs(folder: Path) -> None:
    failed = windlass(folder, "enqueue", "fail", "--retries", "0", "--unchecked")
    windlass(folder, "enqueue", "work", "seconds:=0", "--unchecked")
    log = folder / "node.log"
    with log.open("w") as output:
        node = subprocess.Popen(
            WORKER, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        until(lambda: log.read_text().count("AttemptEnded") == 2, "both tasks have ended")
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.wait()

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all("event" in line for line in lines)
    by_event: dict[str, list[Any]] = {}
    for line in lines:
        by_event.setdefault(line["event"], []).append(line)
    ends = {line["handler"]: line for line in by_event["AttemptEnded"]}
    assert (ends["work"]["state"], ends["fail"]["state"], ends["fail"]["attempt"]) == ("completed", "failed", 1)
    assert "in fail" in ends["fail"]["traceback"]
    shown = [(line["message"], line["task_id"]) for line in by_event["TaskLog"] + by_event["TaskOutput"]]
    assert shown == [("before it fails", failed), ("from a thread", failed), ("on stderr", failed)]
    assert f"{folder / 'tasks.db'} ($WINDLASS_URL)" in by_event["NodeStarted"][0]["store"]
    assert {line["why"] for line in by_event["WorkerStateChanged"] if line["after"] == "draining"} == {
        "the node shuts down"
    }
    captured = windlass(folder, "tasks", "logs", failed)
    assert all(text in captured for text in ("before it fails", "from a thread", "on stderr"))


def test_a_quiet_node_logs_only_problems(folder: Path) -> None:
    windlass(folder, "enqueue", "work", "seconds:=0", "--unchecked")
    windlass(folder, "enqueue", "fail", "--retries", "0", "--unchecked")
    log = folder / "node.log"
    with log.open("w") as output:
        node = subprocess.Popen(
            [*WORKER, "--quiet"], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stderr=output
        )
    try:
        until(lambda: "AttemptEnded" in log.read_text(), "the failure is logged")
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.wait()

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["event"], line.get("state")) for line in lines if line["event"] != "TaskOutput"] == [
        ("AttemptEnded", "failed")
    ]


class Terminal:
    """A node in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Under nohup, which a node obeys, it would be ignored.
            os.chdir(folder)
            os.execve(WORKER[0], WORKER, environment(folder))
        os.set_blocking(self.master, False)
        self._shown = b""
        self.status: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self.master)
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def shown(self) -> str:
        with suppress(BlockingIOError, OSError):
            while data := os.read(self.master, 65_536):
                self._shown += data
        return self._shown.decode()

    def ended(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)
        return bool(pid)


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    windlass(folder, "enqueue", "work", "seconds:=60", "--unchecked")
    windlass(folder, "enqueue", "fail", "--retries", "0", "--unchecked", "--priority", "5")
    with Terminal(folder) as terminal:
        until(lambda: "fail" in terminal.shown(), "the first task has ended")
        yield terminal


def test_on_a_terminal_ends_are_colored_lines_and_ctrl_c_says_what_still_runs(terminal: Terminal, folder: Path) -> None:
    until(lambda: '"leased": 1' in windlass(folder, "db", "status", "--json"), "the second task runs")
    until(lambda: "no such address" in terminal.shown(), "the failure is shown")

    os.write(terminal.master, b"\x03")
    until(lambda: "press again" in terminal.shown(), "the drain is reported")
    os.write(terminal.master, b"\x03")
    os.write(terminal.master, b"\x03")
    until(lambda: terminal.shown() is not None and terminal.ended(), "the node has ended")

    text = terminal.shown()
    assert re.search(r"\x1b\[31m\d\d:\d\d:\d\d ✗ fail \S+ failed in .* s, attempt 1: ValueError: no such address", text)
    assert "in fail" in text
    assert "draining: 1 task still running, press again to stop it" in text
    assert terminal.status == 0


def test_a_node_ends_with_its_terminal(folder: Path) -> None:
    with Terminal(folder) as terminal:
        until(lambda: "starting → idle" in terminal.shown(), "it works")

        os.close(terminal.master)

        until(terminal.ended, "the node has ended")
        assert terminal.status == 0
