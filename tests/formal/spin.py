"""Runs Spin over the model, as it is and with each planted mistake."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).parent / "lease.pml"
MISTAKES = {
    "NO_FENCE": "settle does not compare the fence",
    "NO_PARENT_LOCK": "a submit does not lock the prerequisites that it names",
    "SNAPSHOT_BEFORE_LOCK": "settle looks for edges before it waits for the row lock",
    "SETTLE_FORGETS_CANCEL": "settle ignores a cancel request",
    "REQUEUE_FORGETS_CANCEL": "a lost lease comes back although its task was cancelled",
    "CLOSE_KEEPS_LEASES": "closing a session does not release what it holds",
    "ONE_SWEEP": "a lost session is swept only once, while a claim may be under way",
}


@dataclass(frozen=True)
class Finding:
    """What Spin found: the number of states it visited, and the first violation, or nothing."""

    states: int
    violation: str


def is_installed() -> bool:
    """Return True if Spin and a C compiler are on the path."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def explore(mistake: str | None = None) -> Finding:
    """Visit every state of the model, with or without a planted mistake, and return what was found."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"-D{mistake}"] if mistake else []
        _run("spin", "-a", *flags, str(MODEL), folder=folder)
        speed = "-O0" if mistake else "-O1"  # A mistake is found early, so compiling would take longer than searching.
        _run("gcc", speed, "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c", folder=folder)
        output = _run("./pan", "-m100000", folder=folder)
    states = re.search(r"(\d+) states, stored", output)
    violation = re.search(r"^pan:1: (.*?)(?: \(at depth \d+\))?$", output, re.MULTILINE)
    if states is None or "max search depth too small" in output:
        raise RuntimeError(f"Spin did not visit every state:\n{output}")
    return Finding(states=int(states[1]), violation=violation[1] if violation else "")


def _run(*command: str, folder: str) -> str:
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
