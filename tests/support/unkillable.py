"""Real processes that a SIGKILL does not remove: one that a debugger holds, and one in uninterruptible sleep.

A killed process that another one traces stays a zombie which its parent cannot reap. A process in a frozen cgroup (of
version 1) is in the state D, in which even SIGKILL waits until it is thawed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.processes import until

FREEZER = Path("/sys/fs/cgroup/freezer")
TRACER = """
import ctypes, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
SEIZE = 0x4206
print(ctypes.get_errno() if ptrace(SEIZE, int(sys.argv[1]), 0, 0) else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_debugger(pid: int) -> Iterator[None]:
    """Trace a process during the block. If it is killed, it can be reaped only afterwards."""
    command = [sys.executable, "-c", TRACER, str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        try:
            error = int(tracer.stdout.readline())
            if error:
                pytest.skip(f"this system does not allow to trace a process of the same user (errno {error})")
            yield
        finally:
            tracer.stdin.close()


@contextmanager
def frozen(pid: int, name: str) -> Iterator[None]:
    """Freeze a process during the block, in a cgroup with this name. It is in the state D."""
    group = FREEZER / name
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this system has no cgroup that freezes processes in the state D: {error}")
    try:
        (group / "tasks").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_DISK_SLEEP, "it is in the state D")
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        until(lambda: not (group / "tasks").read_text(), "the frozen process has died")
        group.rmdir()
