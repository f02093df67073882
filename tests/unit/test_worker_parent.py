from __future__ import annotations

import os
import socket

import pytest

from windlass import App
from windlass.worker import worker_parent as module
from windlass.worker.log_format import LogOptions
from windlass.worker.worker_parent import WorkerParent

LEFT_BEHIND = 4_711


def test_an_orphan_of_another_user_does_not_end_the_worker_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's end of the socket is already closed, so `run` only cleans up."""
    children: list[set[int]] = [set(), {LEFT_BEHIND}, {LEFT_BEHIND}]

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    node, end = socket.socketpair()
    node.close()
    monkeypatch.setattr(module, "_children", lambda: children.pop(0))
    monkeypatch.setattr(module, "signal", Untouched())
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    monkeypatch.setattr(module.ctypes, "CDLL", lambda _name: Untouched())
    monkeypatch.setattr(os, "kill", refuse)

    with end:
        WorkerParent(end, App("memory:"), LogOptions()).run()

    assert children == []


class Untouched:
    """Replaces the process settings that the worker parent changes, because here they are the test's own."""

    def __getattr__(self, _name: str) -> Untouched:
        return self

    def __call__(self, *_: object, **__: object) -> Untouched:
        return self
