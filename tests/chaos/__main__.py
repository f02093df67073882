"""Breaks a real cluster on purpose and judges it: `make chaos ARGS="--seconds 120 --seed 7"`."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import run

parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
parser.add_argument("--seconds", type=float, default=120, help="how long things are broken")
parser.add_argument(
    "--seed", type=int, default=None, help="the schedule of faults and the workload; drawn if not given"
)
parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
parser.add_argument("--rate", type=float, default=20, help="tasks per second")
parser.add_argument("--ttl", type=float, default=5, help="seconds that the session of a node lasts")
parser.add_argument("--keep", type=Path, help="keep the recording and the logs of the nodes in this folder")
given = parser.parse_args()
logging.disable(logging.CRITICAL)  # Broken connections are the point; what follows from them is in the verdict.
seed = random.randrange(1_000_000) if given.seed is None else given.seed
print(f"seed {seed}: python -m tests.chaos --seed {seed} --seconds {given.seconds:g} --store {given.store}", flush=True)
with tempfile.TemporaryDirectory() as temporary:
    folder: Path = given.keep or Path(temporary)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"--keep {folder} is not empty: the recordings of two runs would be mixed")
    verdict = run(folder, kind=given.store, seed=seed, seconds=given.seconds, rate=given.rate, ttl=given.ttl)
print(verdict)
print("clean" if verdict.is_clean else "BROKEN")
sys.exit(0 if verdict.is_clean else 1)
