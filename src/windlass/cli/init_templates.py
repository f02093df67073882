"""The files that `windlass init` writes. `{name}` is the module."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Mapping

FALLBACK = "tasks"
TAKEN = frozenset({"windlass", "pytest", "conftest", "test", "tests"}) | sys.stdlib_module_names

APP = '''\
"""The tasks of this app. A handler is a plain function: call it, or enqueue it so that a node runs it."""

import windlass

app = windlass.App()  # $WINDLASS_URL, else sqlite:///windlass.db; also postgresql://…


@app.task(queue="mail", retries=5, timeout="30s")
def send(to: str, subject: str = "") -> int:
    """Send a mail. After an error it is retried up to five times."""
    print("sending to", to)
    return len(subject)


def welcome(address: str) -> None:
    """Welcome a new customer once, however often this is called: the key identifies the task."""
    send.using(key=f"welcome:{address}").enqueue(address, subject="Welcome")


if __name__ == "__main__":
    welcome("ann@example.com")
    print("enqueued; `windlass worker` runs it, `windlass tasks ls` shows it")
'''

TEST = '''\
"""Runs enqueued tasks in memory through the real claim path. See docs/guides/testing.md of Windlass."""

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
# Settings of `windlass worker` and the other commands in this folder. Flags and $WINDLASS_URL override them.
app: {name}:app
store: sqlite:///windlass.db

pools:
  default:
    queues: [default, mail]
    # The pool starts enough workers, between `min` and `max`, that no task waits longer than `wait`.
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
    """Return the content of each file, by file name."""
    texts = {f"{name}.py": APP, f"test_{name}.py": TEST, "windlass.yaml": SETTINGS, ".gitignore": IGNORED}
    return {file: text.replace("{name}", name) for file, text in texts.items()}


def module_name(folder: str) -> str:
    """Return the name of the app's module: that of the folder, if it can be imported and is not taken.

    >>> module_name("my-shop"), module_name("json"), module_name("2nd")
    ('my_shop', 'tasks', 'tasks')
    """
    name = folder.lower().replace("-", "_").replace(" ", "_").replace(".", "_")
    is_good = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in TAKEN
    return name if is_good else FALLBACK
