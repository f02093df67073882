"""`python -m windlass.demo`: the same as `windlass demo`, for `make demo`."""

from __future__ import annotations

from windlass.cli.demo import demo

if __name__ == "__main__":
    demo(prog_name="windlass demo")
