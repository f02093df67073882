"""Every button does what it says, in a real browser: the store has changed, and the audit log says who did it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import task_actions
from tests.browser.actions import SCENARIOS
from tests.browser.conftest import SUB_PATH, Visit
from tests.browser.site import open_site
from windlass.dashboard.pages.table import MODULES

assert task_actions, "importing it adds its scenarios"


def test_every_action_is_pressed() -> None:
    found = {action.path for module in MODULES for action in module.actions}

    assert found == SCENARIOS.keys(), "add a scenario to tests/browser/actions.py"


@pytest.mark.slow
def test_every_button_does_what_it_says(visit: Visit, tmp_path: Path) -> None:
    failed: list[str] = []
    with open_site(f"sqlite:///{tmp_path}/tasks.db", tmp_path / "site", root_path=SUB_PATH) as site:
        visitor = visit(site)
        # The first token closes the server, so tokens come last.
        for path in sorted(SCENARIOS, key=lambda path: path.startswith("/settings")):
            try:
                SCENARIOS[path](visitor, site)
                failed += visitor.take_problems(path)
            except Exception as error:
                raise AssertionError(f"{path}: {error}\n{visitor.page.inner_text('body')[:1_000]}") from error

    assert failed == []
