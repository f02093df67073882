"""`python -m benchmarks.idle`: what a node with a server costs while there is nothing to do.

Processor time is counted, not wall time, so other work on the machine disturbs little.
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
    """Run `windlass up`, leave it alone, print what it used."""
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
    """One line for each process, and the sum."""
    node = psutil.Process(pid)
    family = [node, *node.children(recursive=True)]
    before = {each.pid: spent(each) for each in family}
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    shares = [(spent(each) - before[each.pid]) / passed for each in family]
    own = [each.memory_full_info().uss / 1e6 for each in family]
    resident = [each.memory_info().rss / 1e6 for each in family]
    for name, share, uss, rss in zip(names(len(family)), shares, own, resident, strict=True):
        tell(name, share, uss, rss)
    tell("together", sum(shares), sum(own), sum(resident))


def tell(name: str, share: float, uss: float, rss: float) -> None:
    """One line of the table."""
    print(f"{name:<16} {share:7.2%} of a core  {uss:5.0f} MB of its own  {rss:5.0f} MB resident")


def names(count: int) -> list[str]:
    """The node with its server, its nursery, its workers."""
    return ["node and server", "nursery", *(f"worker {number}" for number in range(1, count - 1))]


def spent(process: psutil.Process) -> float:
    """Seconds of processor time."""
    times = process.cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    sys.exit(main())
