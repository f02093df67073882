"""Circuit breakers of downstreams as people see and change them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core import breaker as rules
from windlass.core.breaker import Breaker, BreakerState
from windlass.core.names import check_name
from windlass.core.times import Duration, Micros, duration, micros
from windlass.errors import UnknownBreaker
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.reversal import Fields, Reversal, compare_fields, to_fields
from windlass.redaction import redact_text
from windlass.stores.coordination import Control
from windlass.stores.protocol import TaskReader

KIND = "breaker"
HELD = ("state", "since", "until", "reason", "forced_by", "opened")
"""The fields of a breaker that a person changes. The others count attempts."""


class BreakerView(Struct, frozen=True, kw_only=True):
    """The breaker of a downstream whose tasks have failed recently, or that a person holds open or closed."""

    name: str
    breaker: Breaker
    sentence: str


def get_all(access: Access) -> list[BreakerView]:
    """Return every breaker, by name."""
    return read_breakers(access.whole_store, access.now)


def get(access: Access, name: str) -> BreakerView:
    """Return one breaker. Raise `UnknownBreaker` if no task of the downstream has failed."""
    found = next((view for view in get_all(access) if view.name == name), None)
    if found is None:
        raise UnknownBreaker(name)
    return found


def read_breakers(store: TaskReader, now: Micros) -> list[BreakerView]:
    """Return every breaker of a store as of `now`, by name."""
    found = [(control.name, rules.advance(rules.decode(control.value), now)) for control in store.controls(KIND)]
    return [_view(name, breaker, now) for name, breaker in found]


def hold(
    access: Access,
    name: str,
    state: BreakerState,
    *,
    author: Author,
    lasts: Duration | None = None,
    create: bool = False,
) -> BreakerView:
    """Hold a breaker open or closed for some time, or until it is closed, whatever its tasks do.

    Without `create`, raise `UnknownBreaker` for a downstream that no handler names and that has no breaker.
    """
    _check_known(access, name, create=create)
    now = access.now
    until = None if lasts is None else now + micros(duration(lasts, "for"))

    def force(breaker: Breaker) -> Breaker:
        return rules.force(breaker, now, state, by=author.by, why=author.why, until=until)

    # The sentence about a breaker that is held includes the reason.
    return _change(access, name, force, "held", replace(author, why=""), now)


def close(access: Access, name: str, *, author: Author) -> BreakerView:
    """Close a breaker now. It opens again when enough tasks fail. Raise `UnknownBreaker` as `hold` does."""
    _check_known(access, name, create=False)
    now = access.now
    return _change(access, name, lambda breaker: rules.reset(breaker, now, by=author.by), "closed", author, now)


def remove(access: Access, name: str, *, author: Author) -> BreakerView:
    """Remove a breaker and what it has counted. The next failures of its downstream make a new one."""
    now = access.now
    store = access.whole_store

    def attempt() -> Breaker:
        control = find_control(store, KIND, name)
        if control is None:
            raise UnknownBreaker(name)
        undo = compare_fields(_held_fields(control), {})
        entry = author.entry(f"breaker/{name}", "removed", f"removed the breaker of {name}", undo=undo)
        write_control(store, KIND, name, None, version=control.version, entries=[entry])
        return rules.decode(control.value)

    return _view(name, retry_on_conflict(f"the breaker of {name}", attempt), now)


def restore(access: Access, name: str, reversal: Reversal) -> None:
    """Undo what a person did to a breaker, unless it has opened or closed by itself since. Its counts stay."""
    store = access.whole_store

    def attempt() -> None:
        control = find_control(store, KIND, name)
        present = _held_fields(control)
        restored = reversal.revert(present)
        counts = {} if control is None else to_fields(rules.decode(control.value))
        breaker = {**{field: value for field, value in counts.items() if field not in HELD}, **restored}
        value = msgspec.json.encode(breaker).decode() if breaker else None
        version = 0 if control is None else control.version
        write_control(store, KIND, name, value, version=version, entries=[reversal.note(present, restored)])

    retry_on_conflict(f"the breaker of {name}", attempt)


def _held_fields(control: Control | None) -> Fields:
    return {} if control is None else _select(to_fields(rules.decode(control.value)))


def _select(breaker: Fields) -> Fields:
    return {field: breaker[field] for field in HELD if field in breaker}


def _check_known(access: Access, name: str, *, create: bool) -> None:
    """Raise `UnknownBreaker` for a downstream that no handler names and that has no breaker. It may be a typo."""
    check_name("downstream", name)
    store = access.whole_store
    if create or find_control(store, KIND, name) is not None:
        return
    if name not in {handler.new_task({}).downstream for handler in store.handlers()}:
        raise UnknownBreaker(name)


def _change(
    access: Access, name: str, change: Callable[[Breaker], Breaker], action: str, author: Author, now: Micros
) -> BreakerView:
    check_name("downstream", name)
    store = access.whole_store

    def attempt() -> Breaker:
        control = find_control(store, KIND, name)
        changed = change(Breaker() if control is None else rules.decode(control.value))
        undo = compare_fields(_held_fields(control), _select(to_fields(changed)))
        entry = author.entry(f"breaker/{name}", action, rules.sentence(name, changed, now), undo=undo)
        version = 0 if control is None else control.version
        write_control(store, KIND, name, rules.encode(changed), version=version, entries=[entry])
        return changed

    return _view(name, retry_on_conflict(f"the breaker of {name}", attempt), now)


def _view(name: str, breaker: Breaker, now: Micros) -> BreakerView:
    redacted = replace(breaker, reason=redact_text(breaker.reason))
    return BreakerView(name=name, breaker=redacted, sentence=redact_text(rules.sentence(name, breaker, now)))
