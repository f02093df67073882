"""Tokens: made here, shown once, kept as SHA-256 in the store's controls, compared in constant time.

A token is `wdl_` and 256 random bits. Whoever reads the store learns none of them. A revoked token is gone from every
server within `REMEMBERED` seconds.
"""

from __future__ import annotations

import base64
import hmac
import struct
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from threading import Lock

import msgspec
from msgspec import Struct

from windlass.clock import Clock, SystemClock, entropy, monotonic
from windlass.core.names import check_name
from windlass.core.times import Micros, micros
from windlass.errors import InvalidTask, NotAllowed
from windlass.operations.caller import Caller, Scope
from windlass.stores.coordination import Control, Entry
from windlass.stores.protocol import Store

KIND = "token"
REMEMBERED = 2.0
"""For how many seconds a server goes by what it has read."""


class Token(Struct, frozen=True, kw_only=True):
    """What is kept of a token."""

    hash: str
    """SHA-256 of all of it, in hexadecimal digits."""
    scopes: tuple[Scope, ...]
    tenant: str | None = None
    queue: str | None = None
    rate: float | None = None
    created: Micros
    expires: Micros | None = None
    by: str = ""

    def who(self, name: str) -> Caller:
        """Whom it stands for."""
        return Caller(name=name, scopes=frozenset(self.scopes), tenant=self.tenant, queue=self.queue, rate=self.rate)


def create_token(
    store: Store,
    name: str,
    scopes: Sequence[Scope],
    *,
    tenant: str | None = None,
    queue: str | None = None,
    rate: float | None = None,
    lasts: timedelta | None = timedelta(days=90),
    by: str = "local",
    clock: Clock | None = None,
) -> str:
    """Make a token and keep its hash. The answer is the only time that it is seen."""
    check_name("token", name)
    for field, value in (("tenant", tenant), ("queue", queue)):
        if value is not None:
            check_name(field, value)
    if not scopes:
        raise InvalidTask(f"scopes: none given; give some of {', '.join(Scope)}")
    if lasts is not None and not timedelta(0) < lasts <= timedelta(days=3_650):
        raise InvalidTask(f"expires={lasts} is out of range; give up to ten years")
    now = (clock or SystemClock()).now()
    secret = "wdl_" + base64.urlsafe_b64encode(struct.pack("4Q", *_bits())).decode().rstrip("=")
    token = Token(
        hash=hashed(secret),
        scopes=tuple(sorted(set(scopes))),
        tenant=tenant,
        queue=queue,
        rate=rate,
        created=now,
        expires=None if lasts is None else now + micros(lasts),
        by=by,
    )
    text = f"made the token {name} for {', '.join(token.scopes)}"
    entry = Entry(subject=f"token/{name}", action="created", text=text, by=by)
    if not store.put_control(KIND, name, msgspec.json.encode(token).decode(), expect=0, entries=[entry]):
        raise NotAllowed(f"token={name!r} is there already; revoke it first, or choose another name")
    return secret


def revoke_token(store: Store, name: str, *, by: str = "local") -> bool:
    """Make a token worthless; False if there is none of this name."""
    entry = Entry(subject=f"token/{name}", action="revoked", text=f"revoked the token {name}", by=by)
    while True:
        found = next((each for each in store.controls(KIND) if each.name == name), None)
        if found is None:
            return False
        if store.put_control(KIND, name, None, expect=found.version, entries=[entry]):
            return True


def tokens(store: Store) -> dict[str, Token]:
    """Every token that was not revoked, by name; those that have expired too."""
    return {control.name: _token(control) for control in store.controls(KIND)}


def hashed(secret: str) -> str:
    """What is kept of a token. Plain SHA-256 is enough: nobody guesses 256 random bits, however quick the hash."""
    return sha256(secret.encode(errors="replace")).hexdigest()


class Keyring:
    """The tokens as a server knows them, read anew from time to time."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._tokens: dict[str, Token] = {}
        self._read: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether what was read can still be gone by."""
        return self._read is not None and monotonic() - self._read < REMEMBERED

    def read(self) -> None:
        """Ask the store, unless somebody has just done so."""
        with self._lock:
            if not self.is_fresh:
                found = tokens(self._store)
                self._tokens, self._read = found, monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether there is no token at all. One that has expired counts: it must not open what it used to lock."""
        return not self._tokens

    def who(self, secret: str) -> Caller | None:
        """Whom a token stands for; None if it is unknown or has expired. Every known one is compared, to the end."""
        given, now = hashed(secret), self._clock.now()
        found: Caller | None = None
        for name, token in self._tokens.items():
            if hmac.compare_digest(given, token.hash) and (token.expires is None or now < token.expires):
                found = token.who(name)
        return found


def _bits() -> list[int]:
    draw = entropy(4)
    return [draw() for _ in range(4)]


def _token(control: Control) -> Token:
    return msgspec.json.decode(control.value, type=Token)
