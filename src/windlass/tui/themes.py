"""The styles and the two color themes of the pages."""

from __future__ import annotations

from textual.theme import Theme

from windlass.core.lifecycle import State
from windlass.operations.presentation import DARK, LIGHT, Palette

DARK_THEME, LIGHT_THEME = "windlass-dark", "windlass-light"

STYLE = """
#head, #banners, #message, #task-warning { height: auto; padding: 0 1; }
#head { background: $panel; max-height: 3; }
#banners { background: $surface; }
#matched { height: 1; padding: 0 1; }
#filter { margin: 0 1; }
ContentSwitcher { height: 1fr; }
#now-text, #task-text, #pool-text, #tenant-text { padding: 0 1; }
PoolPage LiveTable, TenantsPage LiveTable { height: auto; max-height: 50%; }
ModalScreen { align: center middle; }
ModalScreen > Vertical {
    width: auto; min-width: 50; max-width: 90%; height: auto; padding: 1 2;
    border: round $accent; background: $surface;
}
ModalScreen Static { width: auto; }
ModalScreen Input { width: 60; }
"""


def _theme(name: str, palette: Palette) -> Theme:
    return Theme(
        name=name,
        primary=palette.brass,
        accent=palette.brass,
        foreground=palette.ink,
        background=palette.ground,
        surface=palette.card,
        panel=palette.line,
        warning=palette.states[State.RETRYING],
        error=palette.states[State.FAILED],
        success=palette.states[State.COMPLETED],
        dark=palette is DARK,
    )


THEMES = (_theme(DARK_THEME, DARK), _theme(LIGHT_THEME, LIGHT))
