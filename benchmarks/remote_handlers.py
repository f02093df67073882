"""The handler of the worker that speaks HTTP in `benchmarks.recovery`."""

from __future__ import annotations

import json
import os
import time
from typing import Any


def begin(order: dict[str, Any]) -> None:
    """Record when it began, as the handlers of `tests.e2e.shop` do."""
    line = {"what": "began", "task": order["task"], "pid": os.getpid(), "at": time.monotonic()}
    file = os.open(os.environ["WINDLASS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, json.dumps(line).encode() + b"\n")
    os.close(file)


HANDLERS = {"begin": begin}
