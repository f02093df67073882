from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.nodes import as_given
from tests.support.processes import ROOT, open_store, until
from windlass.operations import tokens
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope

pytestmark = pytest.mark.slow


def asked(address: str, secret: str) -> urllib.request.Request:
    return urllib.request.Request(f"{address}/api/v1/nodes", headers={"Authorization": f"Bearer {secret}"})


def is_accepted(address: str, secret: str) -> bool:
    try:
        urllib.request.urlopen(asked(address, secret), timeout=10).close()
    except urllib.error.HTTPError:
        return False
    return True


def test_up_runs_tasks_and_serves_http_in_one_process(tmp_path: Path) -> None:
    url = as_given(str(tmp_path / "up.db"))
    log = tmp_path / "up.log"
    store = open_store(str(tmp_path / "up.db"))
    words = ["up", "tests.e2e.shop:app", "--store", url, "--port", "0", "--max", "2"]
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-m", "windlass", *words], cwd=ROOT, stdout=output, stderr=output)
        try:
            until(lambda: "HTTP API at" in log.read_text() and '"after":"idle"' in log.read_text(), "it is up")
            [address] = re.findall(r'HTTP API at (http://[^\s"]+)', log.read_text())

            with urllib.request.urlopen(f"{address}/readyz", timeout=10) as answer:
                ready = json.load(answer)["ready"]
            with pytest.raises(urllib.error.HTTPError, match="401"):  # A handler has no secret, and must not act.
                urllib.request.urlopen(f"{address}/api/v1/nodes", timeout=10)
            secret = tokens.create(Access(store), "ops", [Scope.READ], Author("test"))
            until(lambda: is_accepted(address, secret), "the server has read the token")
            with urllib.request.urlopen(asked(address, secret), timeout=10) as answer:
                nodes = json.load(answer)

            process.send_signal(signal.SIGTERM)
            status = process.wait(30)
        finally:
            process.kill()
            process.wait()

    store.close()
    assert "TokensMissing" in log.read_text()
    assert ready
    assert [node["about"]["app"] for node in nodes] == ["tests.e2e.shop:app"]
    assert status == 0, log.read_text()
