"""The name under which Windlass is installed. On PyPI, `windlass` is an unrelated project.

The import and the command are `windlass`.
"""

from __future__ import annotations

DISTRIBUTION = "windlass-tasks"


def install_hint(extra: str) -> str:
    """Return the command that installs an extra.

    >>> install_hint("postgres")
    'pip install "windlass-tasks[postgres]"'
    """
    return f'pip install "{DISTRIBUTION}[{extra}]"'
