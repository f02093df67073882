"""A table whose cursor stays on its row while the rows change every second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

Row = tuple[str, Sequence[Text]]
"""The key of a row, and its cells."""


class LiveTable(DataTable[Text]):
    """Rows with keys. Only changed cells are drawn again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "down", show=False),
        Binding("k", "cursor_up", "up", show=False),
    ]

    def __init__(self, heads: Sequence[str], *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self._heads = heads
        self._keys: list[str] = []

    def on_mount(self) -> None:
        for head in self._heads:
            self.add_column(head, key=head, width=len(head))

    @property
    def selected(self) -> str | None:
        """Return the key of the row under the cursor."""
        return self._keys[self.cursor_row] if 0 <= self.cursor_row < len(self._keys) else None

    def invalidate(self) -> None:
        """Draw every cell again at the next `show`, because the colors have changed."""
        self._keys = []

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, in this order."""
        self._fit_columns([cells for _, cells in rows])
        if [key for key, _ in rows] == self._keys:
            self._update(rows)
        else:
            self._fill(rows)

    def _fit_columns(self, rows: Sequence[Sequence[Text]]) -> None:
        """Set the widths before any cell changes.

        An automatic width is measured when the table is idle. A cell drawn before that is clipped, and stays clipped,
        because the table caches what it has drawn.
        """
        for at, column in enumerate(self.ordered_columns):
            column.width = max(column.label.cell_len, *(cells[at].cell_len for cells in rows), 0)

    def _update(self, rows: Sequence[Row]) -> None:
        for key, cells in rows:
            for head, cell in zip(self._heads, cells, strict=True):
                if self.get_cell(key, head) != cell:
                    self.update_cell(key, head, cell, update_width=True)

    def _fill(self, rows: Sequence[Row]) -> None:
        selected, place = self.selected, self.cursor_row
        self.clear()
        self._keys = [key for key, _ in rows]
        for key, cells in rows:
            self.add_row(*cells, key=key)
        if self._keys:
            self.move_cursor(row=self._keys.index(selected) if selected in self._keys else min(place, len(rows) - 1))
