"""API tokens: created here, shown once, stored as SHA-256 hashes, compared in constant time.

A token is `wdl_` and 256 random bits, which the store does not reveal. Every server refuses a revoked token within
`REMEMBERED` seconds.
"""

from __future__ import annotations

import base64
import hmac
import logging
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
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.stores.coordination import Control
from windlass.stores.protocol import Store, TaskReader

logger = logging.getLogger("windlass.server")

KIND = "token"
CLOSED, SINCE = "access", "closed"
"""The control that says that a token was created once. It stays, so revoking the last token opens nothing."""
REMEMBERED = 2.0
"""For how many seconds a server uses the tokens that it has read."""


class Token(Struct, frozen=True, kw_only=True):
    """A token as it is stored."""

    hash: str
    """SHA-256 of the secret, in hexadecimal digits."""
    scopes: tuple[Scope, ...]
    tenant: str | None = None
    queue: str | None = None
    rate: float | None = None
    created: Micros
    expires: Micros | None = None
    by: str = ""

    def caller(self, name: str) -> Caller:
        """Return the caller whom the token identifies."""
        return Caller(name=name, scopes=frozenset(self.scopes), tenant=self.tenant, queue=self.queue, rate=self.rate)


def create(
    access: Access,
    name: str,
    scopes: Sequence[Scope],
    author: Author,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    rate: float | None = None,
    lasts: timedelta | None = timedelta(days=90),
) -> str:
    """Create a token and return its secret, which is not stored and cannot be shown again."""
    check_name("token", name)
    for field, value in (("tenant", tenant), ("queue", queue)):
        if value is not None:
            check_name(field, value)
    if not scopes:
        raise InvalidTask(f"scopes: none given. Use some of {', '.join(Scope)}.")
    if tenant is not None and Scope.WORK in scopes:
        raise InvalidTask(f"tenant={tenant!r}: a token with the scope work serves all tenants. Limit it with a queue.")
    if lasts is not None and not timedelta(0) < lasts <= timedelta(days=3_650):
        raise InvalidTask(f"expires={lasts} is out of range. Use a time of up to ten years.")
    now = access.now
    secret = new_secret()
    token = Token(
        hash=hash_secret(secret),
        scopes=tuple(sorted(set(scopes))),
        tenant=tenant,
        queue=queue,
        rate=rate,
        created=now,
        expires=None if lasts is None else now + micros(lasts),
        by=author.by,
    )
    close(access.whole_store)
    entry = author.entry(f"token/{name}", "created", f"created token {name} for {', '.join(token.scopes)}")
    value = msgspec.json.encode(token).decode()
    if not access.whole_store.put_control(KIND, name, value, expect=0, entries=[entry]):
        raise NotAllowed(f"Token {name!r} exists already. Revoke it first, or choose another name.")
    return secret


def new_secret() -> str:
    """Return a new secret of 256 random bits."""
    return "wdl_" + base64.urlsafe_b64encode(struct.pack("4Q", *_random_words())).decode().rstrip("=")


def revoke(access: Access, name: str, author: Author) -> bool:
    """Revoke a token. Return False if there is none of this name."""
    store = access.whole_store
    if find_control(store, KIND, name) is not None:
        close(store)  # A token of an older version may have been created without it.
    entry = author.entry(f"token/{name}", "revoked", f"revoked token {name}")

    def attempt() -> bool:
        found = find_control(store, KIND, name)
        if found is not None:
            write_control(store, KIND, name, None, version=found.version, entries=[entry])
        return found is not None

    return retry_on_conflict(f"token {name}", attempt)


def close(store: Store) -> None:
    """Let servers require a token from now on, whatever happens to the tokens there are."""
    if find_control(store, CLOSED, SINCE) is None:
        store.put_control(CLOSED, SINCE, "{}", expect=0)


def is_closed(store: TaskReader) -> bool:
    """Return True if a token was created once, even if it cannot be read any more."""
    return find_control(store, CLOSED, SINCE) is not None or bool(store.controls(KIND))


def get_all(access: Access) -> dict[str, Token]:
    """Return every token that was not revoked, by name, including those that have expired."""
    return read_tokens(access.whole_store)


def read_tokens(store: TaskReader) -> dict[str, Token]:
    """Return every token in a store, by name. One that cannot be read is left out, so that it opens nothing."""
    found = {control.name: _token(control) for control in store.controls(KIND)}
    return {name: token for name, token in found.items() if token is not None}


def hash_secret(secret: str) -> str:
    """Return the hash under which a token is stored. SHA-256 is enough for 256 random bits, however fast it is."""
    return sha256(secret.encode(errors="replace")).hexdigest()


class Keyring:
    """A server's copy of the tokens, which it reads again every `REMEMBERED` seconds."""

    def __init__(self, store: TaskReader, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._tokens: dict[str, Token] = {}
        self._closed = True
        self._read: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Return True while the copy may be used."""
        return self._read is not None and monotonic() - self._read < REMEMBERED

    @property
    def is_unread(self) -> bool:
        """Return True if the tokens were never read."""
        return self._read is None

    def read(self) -> None:
        """Read the tokens from the store, unless another thread has just done so."""
        with self._lock:
            if not self.is_fresh:
                found, closed = read_tokens(self._store), is_closed(self._store)
                self._tokens, self._closed, self._read = found, closed, monotonic()

    @property
    def is_open(self) -> bool:
        """Return True if no token was ever created. Neither an expiry nor a revocation must open the server."""
        return not self._tokens and not self._closed

    def find_caller(self, secret: str) -> Caller | None:
        """Return the caller of a token; None if it is unknown or has expired. All tokens are always compared."""
        given, now = hash_secret(secret), self._clock.now()
        found: Caller | None = None
        for name, token in self._tokens.items():
            if hmac.compare_digest(given, token.hash) and (token.expires is None or now < token.expires):
                found = token.caller(name)
        return found

    def find_token(self, name: str) -> Token | None:
        """Return the token of this name; None if it is unknown or has expired."""
        token = self._tokens.get(name)
        return token if token and (token.expires is None or self._clock.now() < token.expires) else None


def _random_words() -> list[int]:
    draw = entropy(4)
    return [draw() for _ in range(4)]


def _token(control: Control) -> Token | None:
    try:
        return msgspec.json.decode(control.value, type=Token)
    except msgspec.DecodeError as error:
        logger.error("token %s cannot be read and is refused: %s", control.name, error)
        return None
