"""Visits pages in a browser and collects what goes wrong there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response

CHECKS = Path(__file__).with_name("checks.js").read_text()
Theme: TypeAlias = Literal["light", "dark"]
ALL_LOOKS: Sequence[tuple[Theme, int]] = (("light", 1440), ("dark", 1440), ("dark", 360), ("light", 360))
SOME_LOOKS: Sequence[tuple[Theme, int]] = (("light", 360), ("dark", 1440))
HEIGHT = 900


class Visitor:
    """A tab of a browser, with a profile of its own."""

    def __init__(
        self, browser: Browser, address: str, *, javascript: bool = True, touch: bool = False, token: str = ""
    ) -> None:
        self.address = address.rstrip("/")
        self._context = browser.new_context(
            java_script_enabled=javascript,
            has_touch=touch,
            viewport={"width": 1440, "height": HEIGHT},
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
        )
        self.page: Page = self._context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)
        if token:
            self.open("login")
            self.page.fill("input[name=token]", token)
            self.page.click("button[type=submit], form button")

    def open(self, path: str = "") -> None:
        """Open a page below the dashboard's address, and wait until it is complete."""
        answer = self.page.goto(f"{self.address}/{path.lstrip('/')}", wait_until="load")
        assert answer is not None
        assert answer.ok, f"{path}: {answer.status} {self.page.inner_text('body')[:500]}"

    def press(self, selector: str) -> None:
        """Press a button that leads to another page, and wait for that page."""
        with self.page.expect_navigation():
            self.page.click(selector)

    def submit(self, form: str, **fields: str) -> None:
        """Fill in a form, open what it is folded into, and send it."""
        here = self.page.locator(form).first
        here.wait_for(state="attached")  # It may come with the first live update: pages are up to a second old.
        folded = here.locator("xpath=ancestor::details[not(@open)]/summary")
        if folded.count():
            folded.first.click()
        for field, value in fields.items():
            here.locator(f"[name={field}]").fill(value)
        with self.page.expect_navigation():
            here.locator("button:not([type=button])").click()

    def check(self, where: str, looks: Sequence[tuple[Theme, int]] = ALL_LOOKS) -> list[str]:
        """Return what is wrong with the open page in each theme at each width, and what went wrong before."""
        for theme, width in looks:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=theme)
            self.problems += [f"{theme}, {width} px: {problem}" for problem in self.page.evaluate(CHECKS)]
        return self.take_problems(where)

    def take_problems(self, where: str) -> list[str]:
        """Return what went wrong since the last call."""
        found, self.problems = self.problems, []
        return [f"{where}: {problem}" for problem in dict.fromkeys(found)]

    def close(self) -> None:
        """Close the tab."""
        self._context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text} {message.location}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"a script ran: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        own = urlsplit(self.address)
        asked = urlsplit(request.url)
        if asked.scheme != "data" and (asked.netloc != own.netloc or not asked.path.startswith(own.path)):
            self.problems.append(f"request to another place: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.request.method} {response.url}: {response.status}")
