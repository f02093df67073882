"""The state diagram of the docs, generated from the table of moves. `python -m tests.support.diagram` updates it."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.core.lifecycle import INITIAL_STATES, MOVES, State

PAGE = Path(__file__).parents[2] / "docs/architecture/lifecycle.md"
_BLOCK = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def diagram() -> str:
    """Every legal move, in the order in which the states are declared."""
    order = list(State)
    initial = [f"    [*] --> {state}" for state in order if state in INITIAL_STATES]
    moves = [f"    {old} --> {new}" for old in order for new in order if new in MOVES[old]]
    return "\n".join(["```mermaid", "stateDiagram-v2", *initial, *moves, "```"])


def drawn() -> str:
    """The page as it should be."""
    return _BLOCK.sub(lambda _: diagram(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(drawn())
