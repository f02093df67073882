"""Start and kill the worker processes of a system."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from benchmarks.workloads.adapter import URL, System
from benchmarks.workloads.effects import FILE

ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)


class WorkerProcesses:
    """The worker processes of a system. Leaving the `with` block kills them."""

    def __init__(self, system: System, url: str, effects: Path, commands: Sequence[Sequence[str]] = ()) -> None:
        self.log = effects.with_suffix(".log")
        _libc.prctl(
            _PR_SET_CHILD_SUBREAPER, 1
        )  # so that orphans become our children, and their CPU time counts as ours
        environment = {
            **os.environ,
            URL: url,
            FILE: str(effects),
            "WINDLASS_URL": url,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        }
        with self.log.open("ab") as log:
            self.processes = [
                subprocess.Popen(
                    [sys.executable, *(part.format(url=url) for part in command)],
                    cwd=effects.parent,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509  # the harness has one thread
                )
                for command in commands or system.commands
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill all processes and their children, as in a crash."""
        found = [psutil.Process(one.pid) for one in self.processes if one.poll() is None]
        below = [child for one in found for child in one.children(recursive=True)]
        for process in below + found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for process in self.processes:
            process.wait()
        for process in below:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)

    def owns(self, pid: int) -> bool:
        """Return True if this process is one of the workers or their children."""
        with suppress(psutil.NoSuchProcess):
            ours = {one.pid for one in self.processes}
            return pid in ours or any(parent.pid in ours for parent in psutil.Process(pid).parents())
        return False

    def read_log(self) -> str:
        """Return the end of the workers' log."""
        return self.log.read_text(errors="replace")[-1500:]


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
