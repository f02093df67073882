"""Finds every operation by its signature, so that no test can miss a new one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import windlass.operations
from windlass.operations.access import Access
from windlass.operations.author import Author

Operation = Callable[..., Any]


def find_operations() -> dict[str, Operation]:
    """Return every public function that takes an `Access`, by module and name."""
    found: dict[str, Operation] = {}
    for module in iter_modules(windlass.operations.__path__, "windlass.operations."):
        short = module.name.rpartition(".")[2]
        for name, function in inspect.getmembers(import_module(module.name), inspect.isfunction):
            first = next(iter(inspect.signature(function, eval_str=True).parameters.values()), None)
            own = function.__module__ == module.name and not name.startswith("_")
            if own and first is not None and first.annotation is Access:
                found[f"{short}.{name}"] = function
    return found


def takes_author(operation: Operation) -> bool:
    parameters = inspect.signature(operation, eval_str=True).parameters.values()
    return any(each.annotation in (Author, Author | None) for each in parameters)
