"""Print progress to stderr, so that stdout has only the results."""

from __future__ import annotations

import sys
from time import perf_counter

_start = perf_counter()


def log_progress(what: str) -> None:
    """Print what is measured next."""
    print(f"{perf_counter() - _start:6.1f} s  {what}", file=sys.stderr, flush=True)
