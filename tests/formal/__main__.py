"""Explores the model and prints what Spin found: `make model`."""

from __future__ import annotations

import sys

from tests.formal.spin import MISTAKES, explore, is_installed

if not is_installed():
    sys.exit("Spin or gcc is not installed. On Debian: apt-get install spin gcc")
correct = explore()
print(f"as it is: {correct.states:,} states, {correct.violation or 'no violation'}")
missed = bool(correct.violation)
for name, text in MISTAKES.items():
    found = explore(name)
    missed |= not found.violation
    print(f"{name} ({text}): {found.violation or 'NOT FOUND'}")
sys.exit(1 if missed else 0)
