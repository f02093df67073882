"""Seals cursors: encrypts and authenticates where a page ended.

A page may end at a task that the caller may not see, because the store skipped it. So a cursor must not show the id and
the time of that task, and must not be used by a caller with other limits. All servers of a store share one key, which
the store keeps as a control.

The construction is SIV: a keyed hash of the text is its tag and the start of the key stream. So equal cursors have
equal texts, no random numbers are needed, and any change of the text is noticed.
"""

from __future__ import annotations

import base64
import hmac
import struct
from threading import Lock

import msgspec

from windlass.clock import entropy
from windlass.errors import NotAllowed, StoreError, StoreUnavailable
from windlass.operations.caller import Caller
from windlass.operations.conflicts import find_control
from windlass.stores.protocol import Store

KIND, NAME = "cursor_key", "current"
_TAG = 16


class CursorKey:
    """The key of a store, read or created on first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._key: bytes | None = None

    @property
    def is_read(self) -> bool:
        """Return True if `get` will not ask the store."""
        return self._key is not None

    def get(self) -> bytes:
        """Return the key."""
        with self._lock:
            if self._key is None:
                self._key = _read_key(self._store)
            return self._key

    def fingerprint(self, text: str) -> str:
        """Return a keyed hash of text that may be secret: equal for equal texts, and no help in guessing the text."""
        return _hash(self.get(), b"fingerprint", text.encode()).hex()


class CursorSeal:
    """Seals the cursors of one caller."""

    def __init__(self, key: CursorKey, caller: Caller) -> None:
        self._key = key
        self._limits = caller.tenant, caller.queue

    def seal(self, kind: str, data: bytes) -> str:
        """Encrypt a cursor as text for a URL. `kind` says which list it belongs to."""
        tag = self._tag(kind, data)
        return base64.urlsafe_b64encode(tag + self._cipher(tag, data)).decode().rstrip("=")

    def unseal(self, kind: str, text: str) -> bytes | None:
        """Decrypt a cursor. Return None unless it was sealed for such a list and a caller with the same limits."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        tag, data = sealed[:_TAG], sealed[_TAG:]
        data = self._cipher(tag, data)
        return data if hmac.compare_digest(tag, self._tag(kind, data)) else None

    def _tag(self, kind: str, data: bytes) -> bytes:
        context = msgspec.json.encode((kind, self._limits))
        return _hash(self._key.get(), b"tag", struct.pack(">I", len(context)) + context + data)[:_TAG]

    def _cipher(self, tag: bytes, data: bytes) -> bytes:
        """Encrypt or decrypt: both combine the data with the same stream of bytes."""
        key = self._key.get()
        blocks = (_hash(key, b"stream", tag + struct.pack(">I", n)) for n in range(len(data) // 32 + 1))
        return bytes(a ^ b for a, b in zip(data, b"".join(blocks), strict=False))


def _hash(key: bytes, use: bytes, data: bytes) -> bytes:
    return hmac.digest(key, use + b"\0" + data, "sha256")


def _read_key(store: Store) -> bytes:
    """Return the key in the store, and create it if there is none. Of two servers that create one, the first wins."""
    found = find_control(store, KIND, NAME)
    if found is None:
        made = struct.pack("4Q", *_random_words())
        try:
            store.put_control(KIND, NAME, msgspec.json.encode({"key": made.hex()}).decode(), expect=0)
        except StoreUnavailable:
            raise
        except (NotAllowed, StoreError):  # A store that cannot be written: cursors are valid in this process only.
            return made
        found = find_control(store, KIND, NAME)
    assert found is not None, "a control that was written, by us or by another server, can be read"
    return bytes.fromhex(msgspec.json.decode(found.value, type=dict[str, str])["key"])


def _random_words() -> list[int]:
    draw = entropy(4)
    return [draw() for _ in range(4)]
