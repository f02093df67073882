"""Runs Spin over the models, as they are and with each planted mistake."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

MISTAKES = {
    "lease": {
        "M1_REPORT_WITHOUT_FENCE": "a report of an earlier attempt of the same session is accepted",
        "M2_FENCE_DOES_NOT_GROW": "a task gets the same fence again",
        "M2_EPOCH_NOT_RAISED": "a restored store counts fences from where the copy was",
        "M10_SWEEP_IGNORES_RENEWALS": "a session that was renewed since the sweep looked is lost",
        "M10_LEASES_TAKEN_ONCE": "leases are taken only when their session is marked, while a claim may be under way",
        "M11_CLOSE_KEEPS_LEASES": "closing a session does not release what it holds",
        "DRAIN_DROPS_RESULTS": "a drain does not report what has returned, so it runs again",
        "RELEASE_COUNTS_AS_ATTEMPT": "a released task is charged an attempt",
        "CLAIM_TAKES_WHAT_IT_SAW": "a claim does not check under its lock that the task is still runnable",
        "REPORT_FORGETS_CANCEL": "a report ignores a cancel request",
        "REQUEUE_FORGETS_CANCEL": "a lost lease comes back although its task was cancelled",
        "RESTORE_KEEPS_SESSIONS": "a living node renews a restored lease that it does not know, forever",
    },
    "graph": {
        "M4_NO_PARENT_LOCK": "a submit does not lock the prerequisites that it names",
        "M5_EDGES_SEEN_BEFORE_LOCK": "a settle looks for edges before it waits for the row lock",
        "M15_COUNTED_ONCE": "a dependent of two prerequisites that end in one batch is counted once",
        "M16_CANCELLED_COMES_BACK": "the last prerequisite brings a cancelled dependent back",
        "CANCEL_STOPS_AT_DEPENDENT": "a cancel reaches direct dependents only",
        "LOCKED_DEPENDENT_FORGOTTEN": "the end of a prerequisite is not announced if its dependent is locked",
    },
}
"""The mistakes planted in each model. M1 to M16 are the numbers of `tests/mutants/README.md`."""


@dataclass(frozen=True)
class Finding:
    """What Spin found: the number of states it visited, and the first violation, or nothing."""

    states: int
    violation: str


def is_installed() -> bool:
    """Return True if Spin and a C compiler are on the path."""
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def get_path(model: str) -> Path:
    """Return the file of a model."""
    return Path(__file__).parent / f"{model}.pml"


def explore(model: str, mistake: str | None = None) -> Finding:
    """Visit every state of a model, with or without a planted mistake, and return what was found."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"-D{mistake}"] if mistake else []
        _run("spin", "-a", *flags, str(get_path(model)), folder=folder)
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
