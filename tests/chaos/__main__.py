"""Breaks a real cluster on purpose and judges it: `make chaos ARGS="--seconds 120 --seed 7"`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
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
parser.add_argument("--keep", type=Path, help="keep the recording and the logs in this folder, also of a clean run")
parser.add_argument(
    "--dags",
    type=Path,
    default=os.environ.get("WINDLASS_DAGS"),
    help="folder of real graphs (*.jsonl.gz) to run as well; default: $WINDLASS_DAGS",
)
given = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Everything that was started ends with the run.
logging.disable(logging.CRITICAL)  # Broken connections are the point; what follows from them is in the verdict.
seed = random.randrange(1_000_000) if given.seed is None else given.seed
replay = f"make chaos ARGS='--seed {seed} --seconds {given.seconds:g} --store {given.store}'"
print(f"seed {seed}: {replay}", flush=True)
dags = None if given.dags is None else Path(given.dags)
if dags is None:
    print("no real graphs: give their folder with --dags PATH or $WINDLASS_DAGS", flush=True)
elif not dags.is_dir():
    parser.error(f"--dags {dags} is not a folder")
folder: Path = given.keep or Path(tempfile.mkdtemp(prefix="windlass-chaos-"))
folder.mkdir(parents=True, exist_ok=True)
if any(folder.iterdir()):
    parser.error(f"--keep {folder} is not empty: the recordings of two runs would be mixed")
verdict = run(folder, kind=given.store, seed=seed, seconds=given.seconds, rate=given.rate, ttl=given.ttl, dags=dags)
print(verdict)
if verdict.is_clean:
    print("clean")
    if given.keep is None:
        shutil.rmtree(folder)
else:
    print(f"BROKEN. The recording and the logs are in {folder}. Run it again with: {replay}")
    sys.exit(1)
