"""The commands in docs/guides/events.md print what it shows, and its JSON can be submitted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

from tests.cli.conftest import Windlass
from windlass.core.waits import WAITS
from windlass.operations.access import Access
from windlass.stores.protocol import Store
from windlass.wire.tasks import new_task
from windlass.wire.workflows import SubmitWorkflow

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "events.md").read_text()
[CONSOLE] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
[SUBMITTED] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_of_the_guide_print_what_it_shows(windlass: Windlass) -> None:
    parts = re.split(r"^\$ ", CONSOLE, flags=re.MULTILINE)[1:]

    for part in parts:
        command, _, shown = part.partition("\n")
        result = windlass(*shlex.split(command)[1:])

        assert result.exit_code == 0, result.output
        pattern = re.escape(shown.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, result.stdout.strip(), re.DOTALL), f"{command}\n{result.stdout}"
    assert len(parts) == 3


def test_the_json_of_the_guide_describes_waits(store: Store) -> None:
    body = msgspec.json.decode(SUBMITTED, type=SubmitWorkflow)

    tasks = [new_task(Access(store), each, unchecked=True) for each in body.tasks]

    assert [task.wait is not None for task in tasks] == [True, True, False]
    assert {task.handler for task in tasks[:2]} == WAITS
