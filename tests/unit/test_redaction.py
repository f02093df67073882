from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windlass
from windlass.client.arguments import Signature
from windlass.redaction import HIDDEN, Secret, is_secret, redact, redact_text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "passwd",
        "token",
        "accessToken",
        "refresh-token",
        "secret",
        "client_secret",
        "key",
        "api_key",
        "apiKey",
        "APIKEY",
        "x-api-key",
        "SSHKey",
        "keys",
        "Authorization",
        "Set-Cookie",
        "cookies",
        "dsn",
        "database.dsn",
        "credentials",
        "privateKey",
    ],
)
def test_secret_names_are_recognized(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["to", "monkey", "keyboard", "turkey", "hockey", "design", "id", "", "amount", "é"])
def test_other_names_are_not_hidden(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_hidden_at_any_depth_and_nothing_else_is_changed() -> None:
    value = {
        "to": "ann",
        "auth": {"user": "a"},
        "list": [{"password": "x", "n": 1}],
        "token": None,
        "n": 1.5,
        "b": True,
    }

    assert redact(value) == {
        "to": "ann",
        "auth": HIDDEN,
        "list": [{"password": HIDDEN, "n": 1}],
        "token": None,
        "n": 1.5,
        "b": True,
    }
    assert value["list"] == [{"password": "x", "n": 1}]


@dataclass
class Card:
    number: Secret[str]
    holder: str


def charge(
    card: Card,
    pin: Secret[str],
    amount: int,
    notes: list[Secret[str]],
    pair: tuple[int, Secret[int]],
    perhaps: Secret[str] | None = None,
    cards: dict[str, Card] | None = None,
    **rest: Secret[int],
) -> None: ...


def test_secret_annotations_are_hidden_by_the_published_schema() -> None:
    schema: dict[str, Any] = msgspec.json.decode(Signature(charge).schemas()[0])
    args = {
        "card": {"number": "4111", "holder": "Ann"},
        "pin": "1234",
        "amount": 3,
        "notes": ["a", "b"],
        "pair": [1, 2],
        "perhaps": "x",
        "cards": {"one": {"number": "4222", "holder": "Bob"}},
        "extra": 7,
    }

    assert redact(args, schema) == {
        "card": {"number": HIDDEN, "holder": "Ann"},
        "pin": HIDDEN,
        "amount": 3,
        "notes": [HIDDEN, HIDDEN],
        "pair": [1, HIDDEN],
        "perhaps": HIDDEN,
        "cards": {"one": {"number": HIDDEN, "holder": "Bob"}},
        "extra": HIDDEN,
    }


def test_a_handler_gets_the_original_value_of_a_secret() -> None:
    signature = Signature(charge)
    call = signature.encode((Card("4111", "Ann"), "1234", 3, [], (1, 2)), {})
    args, kwargs = signature.decode(msgspec.json.encode(call).decode())

    assert kwargs["pin"] == "1234" if kwargs else args[1] == "1234"
    with pytest.raises(windlass.InvalidPayload, match="pin"):
        signature.encode((Card("4111", "Ann"), 1234, 3, [], (1, 2)), {})


def test_secret_is_a_public_name() -> None:
    assert windlass.Secret is Secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to postgresql://ann:hunter2@db/x", f"no route to postgresql://ann:{HIDDEN}@db/x"),
        ("redis://:hunter2@h", f"redis://:{HIDDEN}@h"),
        ("https://example.com/a:b@c", "https://example.com/a:b@c"),
        ("password=hunter2 user=ann", f"password={HIDDEN} user=ann"),
        ("Authorization: Bearer abc.def", f"Authorization: {HIDDEN}"),
        ('{"api_key": "abc", "n": 1}', f'{{"api_key": {HIDDEN}, "n": 1}}'),
        ("access_key=AKIA123 n=1", f"access_key={HIDDEN} n=1"),
        ("aws_secret_access_key = abc/def", f"aws_secret_access_key = {HIDDEN}"),
        ("private-key: abc", f"private-key: {HIDDEN}"),
        ('Authorization: Digest username="ann", response="abc"', f'Authorization: {HIDDEN}"ann", response="abc"'),
        ("Proxy-Authorization: Negotiate YII abc\nnext: 1", f"Proxy-Authorization: {HIDDEN}\nnext: 1"),
        ("Cookie: a=b; session=abc\nHost: x", f"Cookie: {HIDDEN}\nHost: x"),
        ("Set-Cookie: session=abc; Path=/", f"Set-Cookie: {HIDDEN}"),
        ("{'Cookie': 'a=b; c=d', 'n': 1}", f"{{'Cookie': {HIDDEN}, 'n': 1}}"),
        ('curl -H "Authorization: Basic abc=" https://x', f'curl -H "Authorization: {HIDDEN}" https://x'),
        ("sent Bearer abcdefghijklmnopqrstuvwxyz today", f"sent Bearer {HIDDEN} today"),
        ("the token wdl_abcdefghijklmnopqrstuvwxyz01234567890123456", f"the token wdl_{HIDDEN}"),
        ("git clone https://ghp_abcdefghijklmnopqrst@github.com/x", f"git clone https://{HIDDEN}@github.com/x"),
        (
            "key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nend",
            f"key:\n{HIDDEN}\nend",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE was cut", HIDDEN),
        ("-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"),
        ("KeyError: 'total'", "KeyError: 'total'"),
        ("the secret of success", "the secret of success"),
        ("", ""),
    ],
)
def test_passwords_in_text_are_hidden(text: str, shown: str) -> None:
    assert redact_text(text) == shown


PIECES = (
    "password=", "token: ", '"secret": ', "Authorization: ", "Cookie: ", "Bearer ", "https://u:p@h/", "access_key=",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", HIDDEN, "[redacted", "abc", "a" * 30, '"', "'", " ",
    "\n", ",", ";", "://", "@", ":", "=", "wdl_",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example("password=x")
@example("token: abc, next")
@example('{"secret": "x"}')
@example("at https://u:p@host/x")
@settings(max_examples=300, derandomize=True)
def test_redacting_twice_changes_nothing(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


def test_secrets_in_the_text_of_an_argument_are_hidden() -> None:
    found = redact({"command": "mysql password=hunter2", "lines": ["Cookie: a=b"], "note": "no secret"})

    assert found == {"command": f"mysql password={HIDDEN}", "lines": [f"Cookie: {HIDDEN}"], "note": "no secret"}


def vault() -> Secret[str]: ...


def test_a_secret_result_is_hidden() -> None:
    schema: dict[str, Any] = msgspec.json.decode(Signature(vault).schemas()[1])

    assert redact("hunter2", schema) == HIDDEN
    assert redact({"any": "shape"}, schema) == HIDDEN
    assert redact(None, schema) is None


def test_a_fake_redaction_mark_does_not_protect_a_secret() -> None:
    assert "hunter2" not in redact_text("password=[redacted]hunter2")


@pytest.mark.parametrize(
    ("part", "hidden"),
    [
        *((part, False) for part in ("a", "password", "x://", "://a:", "-----BEGIN ", "Bearer ")),
        *((part, True) for part in ('token="', "-----BEGIN PRIVATE KEY-----", "cookie:", "wdl_")),
    ],
)
def test_the_search_ends_on_text_that_almost_matches_everywhere(part: str, hidden: bool) -> None:
    """A search that starts again at each of them would exceed the time limit of a test."""
    assert (HIDDEN in redact_text(part * 100_000)) == hidden


def test_a_recursive_schema_terminates() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A", "anyOf": [{"$ref": "#/$defs/A"}]}}}

    assert redact({"a": [1]}, schema) == {"a": [1]}


def test_a_schema_with_very_many_choices_hides_the_value_instead_of_trying_them_all() -> None:
    names = [f"A{n}" for n in range(60)]
    choices = [{"$ref": f"#/$defs/{name}"} for name in names]
    schema = {"anyOf": choices, "$defs": {name: {"anyOf": choices, "items": {"anyOf": choices}} for name in names}}

    assert redact({"a": 1}, schema) == HIDDEN
    assert redact({"items": list(range(50_000))}, {"properties": {"items": schema}, "$defs": schema["$defs"]}) == {
        "items": HIDDEN
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"a": 7}},
        {"anyOf": {"a": 1}},
        {"anyOf": [1, None, "x"]},
        {"$ref": 7},
        {"$defs": [], "$ref": "#/$defs/A"},
        {"items": "x", "prefixItems": {"a": 1}},
        {"additionalProperties": [1]},
    ],
)
def test_a_malformed_schema_hides_nothing_and_fails_nothing(schema: dict[str, Any]) -> None:
    value = {"a": [1, {"b": "x"}], "token": "hunter2"}

    assert redact(value, schema) == {"a": [1, {"b": "x"}], "token": HIDDEN}
