"""Whole workers within a load's bounds."""

from __future__ import annotations

from math import ceil

from windlass.simulation.load import Load


def clamp_size(load: Load, size: float) -> int:
    """The size as whole workers, with room for the error of sums."""
    return max(load.floor, min(load.ceiling, ceil(size - 1e-9)))


def apply_deadband(size: int, wish: int, band: float = 0.1) -> int:
    """The wish, unless it lies within a deadband of a tenth."""
    return wish if abs(wish - size) > band * size else size
