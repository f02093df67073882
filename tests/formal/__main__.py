"""Explores the models and prints what Spin found: `make model`."""

from __future__ import annotations

import sys

from tests.formal.spin import MISTAKES, explore, is_installed

if not is_installed():
    sys.exit("Spin or gcc is not installed. On Debian: apt-get install spin gcc")
failed = False
for model, mistakes in MISTAKES.items():
    correct = explore(model)
    failed |= bool(correct.violation)
    print(f"{model} as it is: {correct.states:,} states, {correct.violation or 'no violation'}")
    for name, text in mistakes.items():
        found = explore(model, name)
        failed |= not found.violation
        print(f"{model} {name} ({text}): {found.violation or 'NOT FOUND'}")
sys.exit(1 if failed else 0)
