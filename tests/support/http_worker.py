"""A worker that speaks nothing but HTTP, as one in any language would: open a session, claim, run, settle, renew.

    python -m tests.support.http_worker ADDRESS NAME QUEUE TTL MODULE:HANDLERS      (the token in $WINDLASS_TOKEN)

`HANDLERS` is a dict of functions by the name of the handler; each gets a claimed task as the server sends it. The
worker lasts until it is killed, whatever happens to the server.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.support.http_client import HttpClient, Refused, Unanswered

Order: TypeAlias = dict[str, Any]
AGAIN_SECONDS = 0.2
CLAIM = {"limit": 3, "wait_seconds": 2}


class HttpWorker:
    """One session after the other, with the tasks that they claim."""

    def __init__(
        self, client: HttpClient, name: str, queue: str, ttl: float, handlers: Mapping[str, Callable[[Order], Any]]
    ) -> None:
        self._client = client
        self._about = {"node": name, "queues": [queue], "handlers": [*handlers], "ttl_seconds": ttl}
        self._handlers = handlers
        self._session: str | None = None
        self._renew_seconds = ttl / 5
        threading.Thread(target=self._renew, daemon=True).start()

    def step(self) -> None:
        """Claim some tasks, run them one by one, and report each."""
        try:
            session = self._session or self._open()
            orders = self._client.call("POST", f"/sessions/{session}/claim", CLAIM)
        except Unanswered:
            # The answer may have had tasks that nobody knows of now. Closing their session frees them at once.
            self._leave()
            time.sleep(AGAIN_SECONDS)
        except Refused as refused:
            self._drop(refused)
        else:
            for order in orders["tasks"]:
                self._report(session, self._run(order))

    def _open(self) -> str:
        opened = self._client.call("POST", "/sessions", self._about)
        self._renew_seconds = opened["renew_seconds"]
        self._session = opened["session"]
        return opened["session"]

    def _run(self, order: Order) -> dict[str, Any]:
        lease = {"task": order["task"], "fence": order["fence"]}
        try:
            return {**lease, "outcome": "completed", "result": self._handlers[order["handler"]](order)}
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt
            kind = type(error).__name__
            about = {"kind": kind, "message": str(error), "traceback": traceback.format_exc()}
            return {**lease, "outcome": "failed", "error": about}

    def _report(self, session: str, report: dict[str, Any]) -> None:
        """Report until there is an answer. A report can be repeated; a late one changes nothing."""
        while self._session == session:
            try:
                self._client.call("POST", f"/sessions/{session}/settle", [report])
                return
            except Unanswered:
                time.sleep(AGAIN_SECONDS)
            except Refused as refused:
                self._drop(refused)

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                self._client.call("DELETE", f"/sessions/{session}")
            except (Unanswered, Refused):
                return  # It ends by itself when it is not renewed.

    def _drop(self, refused: Refused) -> None:
        if refused.code != "session_lost":
            raise refused
        self._session = None

    def _renew(self) -> None:
        while True:
            time.sleep(self._renew_seconds)
            session = self._session
            if session is not None:
                try:
                    self._client.call("POST", f"/sessions/{session}/renew", patience=self._renew_seconds)
                except Unanswered:
                    continue
                except Refused:
                    self._session = None


def main(address: str, name: str, queue: str, ttl: str, target: str) -> None:
    """Work until killed."""
    module, _, handlers = target.partition(":")
    client = HttpClient(address, os.environ.get("WINDLASS_TOKEN", ""))
    worker = HttpWorker(client, name, queue, float(ttl), getattr(importlib.import_module(module), handlers))
    while True:
        worker.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
