"""How many workers: pure values and functions, from what is observed to a target with its reasons.

`controller.tick` is the way in. Whoever calls it observes the store and the pool before, and resizes the pool after.
"""

from __future__ import annotations
