from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import until

pytestmark = pytest.mark.slow


STORY = ("✓ workers", "▲ pool 2→", "✓ fulfil-", "critical path reserve", "kill -9 of worker", "was ended by SIGKILL")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "windlass", "demo", *words]


def own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_demo_shows_its_features_and_loses_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flags = ["--store", request.getfixturevalue("postgres_url")] if store == "postgres" else []

    run = subprocess.run(
        command("--seconds", "12", *flags),
        check=False,
        cwd=tmp_path,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    for expected in (
        "✓ workers",
        "✓ dashboard  http://127.0.0.1:",
        "▲ pool 2→",
        "✓ fulfil-",
        "critical path reserve",
        "kill -9 of worker",
        "was ended by SIGKILL",
    ):
        assert expected in run.stdout, run.stdout
    [counted] = re.findall(r"([\d,]+) tasks submitted, 0 lost", run.stdout)
    assert int(counted.replace(",", "")) > 100
    assert "password" not in run.stdout


def test_ctrl_c_drains_and_resume_continues_with_the_same_tasks(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with log.open("w") as output:
        first = subprocess.Popen(command(), cwd=tmp_path, env=own_environment(), stdout=output, stderr=output)
        until(lambda: "✓ fulfil-" in log.read_text(), "an order is done", within=60)
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 0, log.read_text()
    assert " 0 lost" in log.read_text()

    again = subprocess.run(
        command("--seconds", "2", "--resume"),
        check=False,
        cwd=tmp_path,
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert again.returncode == 0, again.stdout + again.stderr
    assert re.search(r"completed [1-9]", again.stdout), "the tasks of the first run are still there"
