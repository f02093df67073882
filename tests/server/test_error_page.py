"""Errors for browsers and for programs."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import httpx
import pytest

from tests.server.conftest import API, Client, Connect, problem
from windlass.errors import Refused
from windlass.operations.caller import Scope
from windlass.server.http.error_page import prefers_html, render
from windlass.wire.problems import problem_of

pytestmark = pytest.mark.anyio

FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (FIREFOX, True),
        (CHROME, True),
        ("text/html", True),
        ("TEXT/HTML ; Q=0.9, application/json;q=0.5", True),
        ("text/*, application/json;q=0.9", True),
        ("text/html;q=0.1, application/json;q=0", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/problem+json", False),
        ("text/html, application/json", False),
        ("text/html;q=0.5, application/problem+json", False),
        ("text/html;q=0.5, */*", False),
        ("text/html;q=0", False),
        ("text/html;q=high", False),
        ("text/plain", False),
        ("application/*, text/html;q=0.9", False),
        (",;=,", False),
    ],
)
def test_html_is_sent_only_when_the_client_prefers_it(accept: str, html: bool) -> None:
    assert prefers_html(accept) is html


class Page(HTMLParser):
    """The parts of a page that matter here."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.attributes: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.setdefault(self.tags[-1], []).append(data)


def without_body(answer: httpx.Response) -> dict[str, str]:
    body = ("content-type", "content-length", "content-security-policy", "date")
    return {name: value for name, value in answer.headers.items() if name not in body}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nothing"), ("DELETE", f"{API}/tasks"), ("GET", f"{API}/tasks"), ("POST", f"{API}/tasks")],
)
async def test_a_browser_gets_a_page_with_the_same_status_and_headers(
    connect: Connect, token: object, method: str, path: str
) -> None:
    assert callable(token)
    token(Scope.ADMIN)  # So that a request without a token is refused.
    client = connect()

    program = await client.request(method, path)
    browser = await client.request(method, path, headers={"Accept": FIREFOX})

    found = problem(program, browser.status_code, program.json()["code"])
    assert browser.headers["content-type"] == "text/html; charset=utf-8"
    assert without_body(browser) == without_body(program)
    assert browser.headers["vary"] == "Accept"
    page = Page(browser.text)
    assert page.text["h1"] == [f"{found['status']} {found['title']}"]
    assert found["code"] in page.text["code"]
    assert found["detail"] in " ".join(page.text["p"])


async def test_the_page_runs_no_script_and_its_policy_allows_only_its_own_style(client: Client) -> None:
    answer = await client.get("/nothing", headers={"Accept": CHROME})

    page, policy = Page(answer.text), answer.headers["content-security-policy"]
    [style] = page.text["style"]
    assert {"script", "img", "link", "iframe"}.isdisjoint(page.tags)
    assert [name for name in page.attributes if name.startswith("on") or name in ("style", "src", "href")] == []
    assert f"style-src 'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    names = ("x-content-type-options", "x-frame-options", "referrer-policy", "cache-control")
    assert [answer.headers[name] for name in names] == ["nosniff", "DENY", "no-referrer", "no-store"]


def test_text_from_a_request_is_escaped() -> None:
    evil = '<script>alert("1")</script>&'

    html = render(problem_of(Refused("invalid_request", evil, field=evil))).decode()

    assert evil not in html
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;") == 3


async def test_a_value_from_the_path_is_escaped(client: Client) -> None:
    answer = await client.get(f"{API}/tasks?limit=%3Cscript%3E&state=%3Cb%3E", headers={"Accept": "text/html"})

    assert answer.status_code == 400
    assert {"script", "b"}.isdisjoint(Page(answer.text).tags)


async def test_an_unexpected_error_shows_only_its_log_id(
    connect: Connect, store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise KeyError("/etc/secret/path")

    monkeypatch.setattr(store, "queues", broken)

    answer = await connect().get(f"{API}/queues", headers={"Accept": FIREFOX})

    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "Log id:" in answer.text
