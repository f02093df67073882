"""A client of the HTTP API for tests and benchmarks, on the standard library alone: one connection per call."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

PATIENCE_SECONDS = 20.0


class Unanswered(Exception):
    """There was no answer, or none that says what happened: the call may have been done or not."""


class Refused(Exception):
    """The server has answered that the call was not done."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.code: str = problem.get("code", "")
        super().__init__(f"{status} {self.code}: {problem.get('detail', '')}")


class HttpClient:
    """Calls one server with one token."""

    def __init__(self, address: str, token: str = "") -> None:
        self._api = f"{address}/api/v1"
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None, *, patience: float = PATIENCE_SECONDS) -> Any:
        """Return the JSON of the answer; None for an empty one."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._api + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                text = answer.read()
            return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code == 429 or error.code >= 500:
                raise Unanswered(f"{method} {path}: {error.code}") from error
            raise Refused(error.code, _problem(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unanswered(f"{method} {path}: {error!r}") from error


def _problem(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        return json.loads(error.read())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
