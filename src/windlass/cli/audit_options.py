"""What a person did from the command line, for the audit log: who, what, and why."""

from __future__ import annotations

import msgspec

from windlass.cli.pool import by_option, somebody, why_option
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

__all__ = ["because", "by_option", "entry", "note", "somebody", "why_option"]


def entry(subject: str, action: str, text: str, *, by: str | None = None, **data: object) -> Entry:
    """What is done, by whom, with the numbers that belong to it: to be written with the deed itself."""
    kept = msgspec.json.encode(data, enc_hook=str).decode() if data else ""
    return Entry(subject=subject, action=action, text=text, by=somebody(by), data=kept)


def note(store: Store, subject: str, action: str, text: str, *, by: str | None = None, **data: object) -> None:
    """Write down what was done, where the deed itself takes no entry."""
    store.note([entry(subject, action, text, by=by, **data)])


def because(why: str) -> str:
    """The reason, as the end of a sentence."""
    return f": {why}" if why else ""
