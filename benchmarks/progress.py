"""What is being measured now, for whoever waits: on stderr, so that stdout holds the results alone."""

from __future__ import annotations

import sys
from time import perf_counter

_start = perf_counter()


def say(what: str) -> None:
    """Say what comes next."""
    print(f"{perf_counter() - _start:6.1f} s  {what}", file=sys.stderr, flush=True)
