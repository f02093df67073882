"""The commands in docs/guides/fairness.md print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from msgspec.structs import replace

from tests.cli.conftest import Windlass
from tests.support.builders import a_session, a_task, submit, submit_one
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.stores.protocol import Store

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "fairness.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


def run_for(store: Store, tenant: str, seconds: int) -> None:
    submit_one(store, queue="mail", tenant=tenant)
    [claim] = store.claim(a_session(store), ["mail"], 1)
    store.settle([(claim.lease, replace(COMPLETED, ran=seconds * 1_000_000))])


def test_the_commands_of_the_guide_print_what_it_shows(windlass: Windlass, store: Store) -> None:
    store.configure(Queue(name="mail", fair=True))
    run_for(store, "acme", 30)
    run_for(store, "beta", 10)
    submit(store, *(a_task(queue="mail", tenant="acme") for _ in range(2)))
    id = submit_one(store, queue="mail", tenant="beta", handler="mail")
    parts = [part for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]

    for part in parts:
        command, _, shown = part.partition("\n")
        words = shlex.split(command.replace("$ID", str(id)))
        result = windlass(*words[1:])

        assert words[0] == "windlass"
        assert result.exit_code == (4 if words[1] == "why" else 0), result.output
        pattern = re.escape(shown.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, result.stdout.strip(), re.DOTALL), f"{command}\n{result.stdout}"
    assert len(parts) > 10
