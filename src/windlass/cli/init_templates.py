"""The files of a first app, as `windlass init` writes them. `{name}` is the module."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Mapping

FALLBACK = "tasks"
TAKEN = frozenset({"windlass", "pytest", "conftest", "test", "tests"}) | sys.stdlib_module_names

APP = '''\
"""The tasks of this app. A handler is still a function: call it, or enqueue it to have a node run it."""

import windlass

app = windlass.App()  # $WINDLASS_URL, else sqlite:///windlass.db; also postgresql://…


@app.task(queue="mail", retries=5, timeout="30s")
def send(to: str, subject: str = "") -> int:
    """Write to somebody. An error is tried again, up to five times."""
    print("writing to", to)
    return len(subject)


def welcome(address: str) -> None:
    """Greet a new customer once, however often this is called: the key says which greeting it is."""
    send.using(key=f"welcome:{address}").enqueue(address, subject="Welcome")


if __name__ == "__main__":
    welcome("ann@example.com")
    print("enqueued; `windlass worker` runs it, `windlass tasks ls` shows it")
'''

TEST = '''\
"""Runs what the app enqueues over the real claim path, in memory. `docs/guides/testing.md` of Windlass has more."""

from collections.abc import Callable

import windlass
from windlass.testing import assert_enqueued, drain

from {name} import app, send, welcome


def test_a_customer_is_welcomed_once(windlass_app: Callable[[windlass.App], windlass.App]) -> None:
    windlass_app(app)

    welcome("ann@example.com")
    welcome("ann@example.com")

    [task] = assert_enqueued(app, send, "ann@example.com", subject="Welcome", times=1)
    assert drain(app) == 1
    assert app.handle(task.id).result() == len("Welcome")
'''

SETTINGS = """\
# What `windlass worker` and the other commands follow in this folder. Flags and $WINDLASS_URL count more.
app: {name}:app
store: sqlite:///windlass.db

pools:
  default:
    queues: [default, mail]
    # It has as many workers as it takes for no task to wait longer than this, between `min` and `max`.
    min: 1
    max: 4
    scale:
      wait: 5s
"""

IGNORED = """\
windlass.db*
__pycache__/
.pytest_cache/
.venv/
"""


def files(name: str) -> Mapping[str, str]:
    """What stands in the folder, by file name."""
    texts = {f"{name}.py": APP, f"test_{name}.py": TEST, "windlass.yaml": SETTINGS, ".gitignore": IGNORED}
    return {file: text.replace("{name}", name) for file, text in texts.items()}


def module_name(folder: str) -> str:
    """What the app's module is called: as its folder, if Python can import that and nothing else is called so.

    >>> module_name("my-shop"), module_name("json"), module_name("2nd")
    ('my_shop', 'tasks', 'tasks')
    """
    name = folder.lower().replace("-", "_").replace(" ", "_").replace(".", "_")
    is_good = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in TAKEN
    return name if is_good else FALLBACK
