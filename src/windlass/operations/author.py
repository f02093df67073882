"""Who changes something, and why. Every action takes an `Author` and writes its audit entry with the change itself."""

from __future__ import annotations

import getpass

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr

from windlass.clock import entropy
from windlass.core.fairness import SetBy
from windlass.core.names import MAX_AUTHOR, check_author
from windlass.core.times import Duration, Micros, duration, span
from windlass.redaction import redact_text
from windlass.stores.coordination import MAX_TEXT, Entry


def user_name() -> str:
    """Return the name of the account that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # An account without a name, as in some containers.
        return "local"


def make_action_id() -> str:
    """Return a random id for one action of a person."""
    return f"{entropy(1)():016x}"


class Author(Struct, frozen=True):
    """The author of one action and the reason for it.

    A name or reason that does not fit the audit log is refused. Secrets in the reason are removed before it is stored.
    """

    name: str
    """An account or an API token."""
    why: str = ""
    acting_for: str = ""
    """The person for whom a token acts, if not its owner."""
    action_id: str = field(default_factory=make_action_id)
    """In every entry of this action. Several people may act with one name at the same time."""

    def __post_init__(self) -> None:
        check_author(self.by, self.why)
        force_setattr(self, "why", redact_text(self.why))

    @property
    def by(self) -> str:
        """Return the name for the audit log. It always ends with the token's own name; a long `acting_for` is cut."""
        room = MAX_AUTHOR - len(f" ({self.name})")
        return f"{self.acting_for[:room]} ({self.name})" if self.acting_for and room > 0 else self.name

    @property
    def because(self) -> str:
        """Return the reason as the end of a sentence: ": why", or nothing."""
        return f": {self.why}" if self.why else ""

    def set_by(self, now: Micros, lasts: Duration | None = None) -> SetBy:
        """Return this author as the one who sets something now, for some time or until it is changed."""
        until = None if lasts is None else now + span(duration(lasts, "for"), "for")
        return SetBy(by=self.by, why=self.why, at=now, until=until)

    def entry(self, subject: str, action: str, text: str, **data: object) -> Entry:
        """Return an audit entry whose text ends with the reason. It has no secrets and fits into the log."""
        encoded = msgspec.json.encode({**data, "action_id": self.action_id}, enc_hook=str).decode()
        text = redact_text(text + self.because)[:MAX_TEXT]
        return Entry(subject=subject, action=action, text=text, by=self.by, data=encoded)
