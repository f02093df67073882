"""Decide how many workers a pool has. Values and functions only: no I/O, no clock, no randomness.

`controller.tick` turns one observation into a target with its reasons. The caller observes the pool before, and resizes
it after.
"""

from __future__ import annotations
