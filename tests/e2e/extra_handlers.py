"""Handlers of an app that is created in another module. Importing that module alone does not register them."""

from __future__ import annotations

import os

from tests.e2e import extra_app


@extra_app.app.task
def double(number: int) -> int:
    return 2 * number


@extra_app.app.task
def own_process() -> int:
    return os.getpid()
