"""The app of `tests.e2e.shop` with handlers that misbehave. Each does its worst once it has said that it began."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.e2e.shop import app, effect


def sockets() -> list[int]:
    """The descriptors of this process that are sockets; in a worker, the one to its node is among them."""
    return [int(file.name) for file in Path("/proc/self/fd").iterdir() if str(_target(file)).startswith("socket:")]


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


@app.task
def neighbor(number: int) -> int:
    effect("neighbor")
    return number


@app.task
def write_bytes(data: str) -> None:
    """Write these bytes, in hexadecimal, into every socket."""
    effect("began")
    for descriptor in sockets():
        os.write(descriptor, bytes.fromhex(data))
    time.sleep(60)
