"""Keys of limits and of equal tasks that are made from a task's arguments, such as "customer:{customer_id}".

A handler declares the key as a template. It is filled in when a task is made: by the Python API, the server, the CLI
and crons. What is stored with the task is the key. A `NewTask` that a program makes itself has its key as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from msgspec.structs import replace

from windlass.core.names import shorten
from windlass.core.task import NewTask, Unique
from windlass.errors import InvalidTask

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def check_template(template: object, required: Collection[str], *, is_open: bool = False, field: str = "limit") -> None:
    """Raise `InvalidTask` unless every placeholder of a key is an argument that all tasks have.

    `required` are the parameters without a default. With `is_open`, tasks may have other arguments too.
    """
    if not isinstance(template, str):
        return  # What is not text is rejected when the task is checked.
    for name in find_placeholders(template, field):
        if name not in required and not is_open:
            known = ", ".join(sorted(required)) or "there are none"
            raise InvalidTask(
                f"{field}={shorten(template)}: {{{name}}} is not a parameter without a default. "
                f"Use one that every task has ({known})."
            )


def refuse_secrets(template: object, is_secret: Callable[[str], bool]) -> None:
    """Raise `InvalidTask` if the key would have a secret argument in it: keys are shown to people."""
    for name in find_placeholders(template) if isinstance(template, str) else ():
        if is_secret(name):
            raise InvalidTask(f"limit={shorten(template)}: {name} is a secret, and keys are not. Use another argument.")


@lru_cache(maxsize=1_000)
def find_placeholders(template: str, field: str = "limit") -> tuple[str, ...]:
    """Return the names in the placeholders of a key."""
    names: list[str] = _PLACEHOLDER.findall(template)
    rest = _PLACEHOLDER.sub("", template)
    if "{" in rest or "}" in rest or not all(names):
        raise InvalidTask(
            f'{field}={shorten(template)} is not a key. Write arguments as in "customer:{{customer_id}}".'
        )
    return tuple(names)


def fill_key(new: NewTask) -> NewTask:
    """Return the task with its arguments in the placeholders of its keys: of its limit, and of equal tasks."""
    if isinstance(new.unique, Unique) and _is_template(new.unique.key):
        key = make_key(new.unique.key, new.args, "unique_key")
        new = replace(new, unique=replace(new.unique, key=key))
    return replace(new, limit=make_key(new.limit, new.args)) if _is_template(new.limit) else new


def _is_template(key: object) -> TypeGuard[str]:
    return isinstance(key, str) and ("{" in key or "}" in key)


def make_key(template: str, args: Mapping[str, Any], field: str = "limit") -> str:
    """Return the key that a template gives for these arguments."""
    names = find_placeholders(template, field)
    for name in names:
        if name not in args:
            raise InvalidTask(f"{field}={shorten(template)}: pass the argument {name}.")
        if isinstance(args[name], bool) or not isinstance(args[name], str | int):
            raise InvalidTask(
                f"{field}={shorten(template)}: {name}={shorten(args[name])} is a {type(args[name]).__qualname__}. "
                "A key is made of text and integers."
            )
    return _PLACEHOLDER.sub(lambda match: str(args[match[1]]), template)
