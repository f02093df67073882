"""Read a long list page by page: the one loop over cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from windlass.call_limits import check_canceled


class Paged(Protocol):
    """A page with the cursor at which the next one begins; None on the last page."""

    @property
    def after(self) -> Any: ...


AnyPage = TypeVar("AnyPage", bound=Paged)


def pages(read: Callable[[Any], AnyPage], after: Any = None) -> Iterator[AnyPage]:
    """Yield pages until the last one. `read` takes the cursor of the previous page."""
    while True:
        check_canceled()
        page = read(after)
        yield page
        after = page.after
        if after is None:
            return
