"""Sessions of people: a signed cookie stands for the token with which a person logged in.

The cookie has the name of the token, an expiry and a random number, never the token itself. The signature covers the
hash of the token, so a session ends when its token is revoked, replaced or expires. All servers of a store share the
key, so a session is valid on each of them and survives a restart.
"""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256

import msgspec
from msgspec import Struct

from windlass.clock import entropy
from windlass.core.times import Micros
from windlass.operations.caller import LOCAL, Caller, Scope
from windlass.operations.cursor_seal import CursorKey
from windlass.server.http.auth import Authenticator

LASTS: Micros = 24 * 3_600 * 1_000_000
"""How long a session is valid. Opening a page in the second half of that time starts it again."""
MAX_COOKIE = 1_000
PERSON = "person"
"""What the signatures of sessions without a token depend on, in place of its hash."""


class _Claim(Struct, array_like=True, frozen=True):
    """What a cookie says, before its signature is checked."""

    name: str
    """The name of the token; empty for a local session, while there are no tokens."""
    expires: Micros
    nonce: str


class Session(Struct, frozen=True, kw_only=True):
    """A person who is logged in."""

    caller: Caller
    cookie: str
    csrf: str
    """Every form must send it back. Another site cannot read it."""
    renew: bool = False
    """True if the cookie should be set: it is new, or the session is in the second half of its time."""
    open: bool = False
    """True if nobody had to log in: a local server without tokens."""

    def matches(self, csrf: str) -> bool:
        """Return True if a form sent the token of this session."""
        return hmac.compare_digest(csrf.encode(errors="replace"), self.csrf.encode())


class Sessions:
    """Starts and checks sessions. The first call reads the key from the store, so call it in a thread."""

    def __init__(self, auth: Authenticator, key: CursorKey) -> None:
        self._auth, self._key = auth, key

    @property
    def cookie_name(self) -> str:
        """Return the name of the cookie. It depends on the store, because cookies ignore ports."""
        return f"windlass_{self._mac('name', '')[:8]}"

    def log_in(self, secret: str, now: Micros) -> Session | None:
        """Start a session for who knows a token, or the secret of a local server. None if it is neither."""
        caller = self._auth.identify(secret)
        return None if caller is None else self._start(caller, now)

    def find(self, cookie: str | None, now: Micros) -> Session | None:
        """Return the session of a cookie. On a local server without tokens or a secret, everybody has one."""
        found = None if not cookie or len(cookie) > MAX_COOKIE else self._check(cookie, now)
        return self.log_in("", now) if found is None else found

    def find_person(self, name: str, cookie: str | None, now: Micros) -> Session:
        """Return the session of a person whom the program around the dashboard has identified."""
        caller = Caller(name=name, scopes=frozenset({Scope.OPERATE}))
        claim = None if not cookie or len(cookie) > MAX_COOKIE else self._read(cookie, PERSON)
        if claim is None or claim.name != name or claim.expires <= now:
            return self._start(caller, now, binding=PERSON)
        return self._session(caller, cookie or "", claim.nonce, renew=False)

    def sign(self, text: str) -> str:
        """Sign a text that a cookie carries for a short time."""
        return f"{self._mac('text', text)}.{text}"

    def verify(self, signed: str) -> str | None:
        """Return the text if its signature is ours."""
        mac, _, text = signed.partition(".")
        return text if hmac.compare_digest(mac.encode(), self._mac("text", text).encode()) else None

    def _start(self, caller: Caller, now: Micros, nonce: str = "", binding: str | None = None) -> Session:
        """Make a cookie. A session that continues keeps its random number, so that open forms stay valid."""
        name = "" if caller is LOCAL else caller.name
        claim = _Claim(name, now + LASTS, nonce or f"{entropy(1)():016x}")
        text = base64.urlsafe_b64encode(msgspec.json.encode(claim)).decode().rstrip("=")
        cookie = f"{text}.{self._mac('session', text + (binding or self._binding(name)))}"
        return self._session(caller, cookie, claim.nonce, renew=True)

    def _check(self, cookie: str, now: Micros) -> Session | None:
        claim = self._read(cookie)
        caller = None if claim is None or claim.expires <= now else self._caller(claim.name)
        if claim is None or caller is None:
            return None
        if claim.expires - now < LASTS // 2:
            return self._start(caller, now, claim.nonce)
        return self._session(caller, cookie, claim.nonce, renew=False)

    def _read(self, cookie: str, binding: str | None = None) -> _Claim | None:
        """Return what a cookie says, if its signature is ours."""
        text, _, mac = cookie.partition(".")
        try:
            claim = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Claim)
        except (ValueError, msgspec.DecodeError):
            return None
        expected = self._mac("session", text + (binding or self._binding(claim.name)))
        return claim if hmac.compare_digest(mac.encode(errors="replace"), expected.encode()) else None

    def _session(self, caller: Caller, cookie: str, nonce: str, *, renew: bool) -> Session:
        is_open = caller is LOCAL and not self._auth.settings.secret
        return Session(caller=caller, cookie=cookie, csrf=self._mac("csrf", nonce), renew=renew, open=is_open)

    def _caller(self, name: str) -> Caller | None:
        if not name:
            return self._auth.identify(self._auth.settings.secret)
        token = self._auth.keyring.find_token(name)
        return None if token is None else token.caller(name)

    def _binding(self, name: str) -> str:
        """Return what a session depends on besides its text: the hash of its token, or of the server's secret."""
        token = self._auth.keyring.find_token(name) if name else None
        return sha256(self._auth.settings.secret.encode()).hexdigest() if token is None else token.hash

    def _mac(self, use: str, text: str) -> str:
        return hmac.digest(self._key.get(), f"dashboard {use}\0{text}".encode(errors="replace"), "sha256").hex()[:40]
