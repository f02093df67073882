from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.nodes import as_given
from tests.support.processes import ROOT, until

pytestmark = pytest.mark.slow


def test_up_runs_tasks_and_serves_http_in_one_process(tmp_path: Path) -> None:
    url = as_given(str(tmp_path / "up.db"))
    log = tmp_path / "up.log"
    words = ["up", "tests.e2e.shop:app", "--store", url, "--port", "0", "--max", "2"]
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-m", "windlass", *words], cwd=ROOT, stdout=output, stderr=output)
        try:
            until(lambda: "listening on" in log.read_text() and "after=idle" in log.read_text(), "it is up")
            [address] = re.findall(r"listening on (http://\S+)", log.read_text())

            with urllib.request.urlopen(f"{address}/readyz", timeout=10) as answer:
                ready = json.load(answer)["ready"]
            with urllib.request.urlopen(f"{address}/api/v1/nodes", timeout=10) as answer:
                nodes = json.load(answer)

            process.send_signal(signal.SIGTERM)
            status = process.wait(30)
        finally:
            process.kill()
            process.wait()

    assert ready
    assert [node["about"]["app"] for node in nodes] == ["tests.e2e.shop:app"]
    assert status == 0, log.read_text()
