"""The audit log as people read it: what people and the autoscaler did, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from windlass.core.times import Micros
from windlass.operations.access import Access
from windlass.operations.paging import pages
from windlass.operations.redact import redact_entry
from windlass.stores.coordination import EntrySeen

PAGE = 1_000
SCANNED = 10_000
"""How many entries one `search` reads."""


class AuditPage(Struct, frozen=True):
    """Some entries, newest first. `after` is the number before which the next page begins; None on the last page."""

    entries: list[EntrySeen]
    after: int | None


def find(access: Access, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> AuditPage:
    """Return a page of the audit log: of everything, one subject as in `queue/mail`, or a kind as in `queue/`."""
    found = access.whole_store.audit(subject, limit=limit, before=before)
    after = found[-1].number if len(found) == limit else None
    return AuditPage([redact_entry(entry) for entry in found], after)


def search(
    access: Access,
    subject: str | None = None,
    *,
    by: str = "",
    text: str = "",
    limit: int = 100,
    before: int | None = None,
) -> AuditPage:
    """Return a page of the entries whose author and text contain these, whatever their case.

    One call reads at most `SCANNED` entries, so a page may be short, or empty, before the last one.
    """
    if not by and not text:
        return find(access, subject, limit=limit, before=before)
    found: list[EntrySeen] = []
    for page in islice(pages(lambda after: find(access, subject, limit=PAGE, before=after), before), SCANNED // PAGE):
        for entry in page.entries:
            words = f"{entry.subject} {entry.action} {entry.text}".lower()
            if by.lower() in entry.by.lower() and text.lower() in words:
                found.append(entry)
            if len(found) == limit:
                return AuditPage(found, entry.number)
        before = page.after
    return AuditPage(found, before)


def each(
    access: Access, subject: str | None = None, *, by: str | None = None, since: Micros | None = None
) -> Iterator[EntrySeen]:
    """Yield entries, newest first: only those of one author, and back to `since`."""
    for page in pages(lambda before: find(access, subject, limit=PAGE, before=before)):
        for entry in page.entries:
            if since is not None and entry.at < since:
                return
            if by in (None, entry.by):
                yield entry
