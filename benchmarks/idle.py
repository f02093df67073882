"""`python -m benchmarks.idle`: measure what an idle node with a server costs.

It measures CPU time, not wall time, so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

WARM_UP = 8.0


def main() -> int:
    """Run `windlass up` without work, and print what it used."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--store", help="a store's URL  [default: a new SQLite file]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.store or f"sqlite:///{Path(folder) / 'idle.db'}"
        words = ["up", "windlass.demo.shop:app", "-Q", "mail", "--store", url, "--port", "0", "--min", "1"]
        process = subprocess.Popen([sys.executable, "-m", "windlass", *words], stderr=subprocess.DEVNULL)
        try:
            time.sleep(WARM_UP)
            measure(process.pid, chosen.seconds)
        finally:
            process.terminate()
            process.wait(30)
    return 0


def measure(pid: int, seconds: float) -> None:
    """Print one line for each process, and the sum."""
    node = psutil.Process(pid)
    family = [node, *node.children(recursive=True)]
    before = {each.pid: get_cpu_seconds(each) for each in family}
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    shares = [(get_cpu_seconds(each) - before[each.pid]) / passed for each in family]
    own = [each.memory_full_info().uss / 1e6 for each in family]
    resident = [each.memory_info().rss / 1e6 for each in family]
    for name, share, uss, rss in zip(name_processes(len(family)), shares, own, resident, strict=True):
        print_line(name, share, uss, rss)
    print_line("total", sum(shares), sum(own), sum(resident))


def print_line(name: str, share: float, uss: float, rss: float) -> None:
    """Print one line of the table."""
    print(f"{name:<16} {share:7.2%} of a core  {uss:5.0f} MB unique  {rss:5.0f} MB resident")


def name_processes(count: int) -> list[str]:
    """Return the names of the processes: the node with its server, the worker parent, the workers."""
    return ["node and server", "worker parent", *(f"worker {number}" for number in range(1, count - 1))]


def get_cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process in seconds."""
    times = process.cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    sys.exit(main())
