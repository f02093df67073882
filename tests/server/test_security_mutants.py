"""Security defaults, broken on purpose: the test that `docs/security.md` names for each one fails.

Only defaults that a monkeypatch breaks, and whose test is quick, are here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.metrics import test_listener
from tests.server import test_access, test_security_middleware
from tests.server.conftest import Connect
from windlass.clock import ManualClock
from windlass.operations import tokens
from windlass.server import settings
from windlass.server.http import security_middleware
from windlass.server.http.rate_limit import RateLimiter
from windlass.server.http.service import Service
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

Token = Callable[..., str]
FAILURES = (AssertionError, pytest.fail.Exception)
services = test_access.services


def test_s1_a_server_that_takes_any_address_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "is_loopback", lambda _host: True)

    with pytest.raises(FAILURES):
        test_access.test_settings_that_expose_the_store_are_refused(
            {"host": "0.0.0.0"}, has_tokens=False, named="windlass token create"
        )


def test_s1_health_on_every_address_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_listener, "parse_address", lambda _address: ("0.0.0.0", 9464))

    with pytest.raises(FAILURES):
        test_listener.test_an_address_without_host_is_a_port_on_localhost("9464", ("127.0.0.1", 9464))


async def test_s2_tokens_without_an_expiry_are_noticed(
    connect: Connect, clock: ManualClock, token: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tokens.create.__kwdefaults__, "lasts", None)

    with pytest.raises(FAILURES):
        await test_access.test_a_token_expires_after_90_days_unless_its_creator_says_otherwise(connect, clock, token)


def test_s2_stored_secrets_are_noticed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "hash_secret", lambda secret: secret)

    with pytest.raises(FAILURES):
        test_access.test_a_token_has_256_bits_and_only_its_hash_is_stored(store)


async def test_s9_requests_without_a_rate_are_noticed(
    connect: Connect, token: Token, services: list[Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RateLimiter, "take", lambda *_: None)

    with pytest.raises(FAILURES):
        await test_access.test_by_default_every_token_has_1000_requests_per_second_with_bursts_of_twice_as_many(
            connect, token, services
        )


@pytest.mark.parametrize("header", list(test_security_middleware.EXPECTED))
async def test_s14_a_missing_header_is_noticed(
    connect: Connect, store: Store, token: Token, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    monkeypatch.delitem(security_middleware.SECURITY_HEADERS, header)

    with pytest.raises(FAILURES):
        await test_security_middleware.test_every_route_has_the_security_headers_with_and_without_a_token(
            connect, store, token, TABLE[0]
        )
