"""What a worker process has of its node: its own ends of two sockets and two pipes, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct

from tests.e2e import canary
from tests.support.nodes import PATIENCE, NodeProcess, as_given
from tests.support.processes import open_store

pytestmark = pytest.mark.slow

PASSWORD = "dsn-canary-7f3a"
STANDARD = {"0", "1", "2"}
"""Standard input is empty; what a handler prints goes to the output of its node, on purpose."""


class Seen(Struct, frozen=True):
    """A node, and what a handler has found in its own worker process."""

    node: NodeProcess
    files: dict[str, str]
    words: list[str]


@pytest.fixture
def seen(url: str, tmp_path: Path) -> Iterator[Seen]:
    address = as_given(url).replace("postgres@", f"postgres:{PASSWORD}@")
    flags = ("--store", address, "--health", "127.0.0.1:0")
    store = open_store(url)
    canary.app.use_store(store)
    with NodeProcess(address, tmp_path / "effects", *flags, app="tests.e2e.canary:app") as node:
        found = canary.look.enqueue().result(PATIENCE)
        yield Seen(node, cast("dict[str, str]", found["files"]), cast("list[str]", found["words"]))
    canary.app.use_store(None)
    store.close()


def opened(pid: int) -> dict[str, str]:
    """Return what the descriptors of a process lead to."""
    found: dict[str, str] = {}
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            found[file.name] = str(file.readlink())
    return found


def may_write(pid: int, number: str) -> bool:
    lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
    [flags] = [line.split()[1] for line in lines if line.startswith("flags:")]
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def test_a_worker_has_no_descriptor_and_no_command_line_of_its_node(seen: Seen) -> None:
    """Its own are one end each of two socket pairs, where it gets tickets, and where it reports ends.

    Descriptors of one pipe have one inode, whichever end they are; those of a socket pair have two.
    """
    own = {number: target for number, target in seen.files.items() if number not in STANDARD}
    [worker] = seen.node.workers()
    sockets = {target for target in own.values() if target.startswith("socket:")}
    pipes = {target: may_write(worker.pid, number) for number, target in own.items() if target.startswith("pipe:")}

    assert (len(own), len(sockets), sorted(pipes.values())) == (4, 2, [False, True]), own
    assert seen.files["0"] == "/dev/null"
    assert PASSWORD not in " ".join(seen.words)
    assert "--store" not in seen.words
    if not os.access(f"/proc/{seen.node.pid}/fd", os.R_OK):
        return  # A node is not dumpable, so only root sees its descriptors.
    node, parent = opened(seen.node.pid), opened(seen.node.worker_parent().pid)
    assert len(node) > len(own)
    assert sockets.isdisjoint(node.values())
    assert set(own.values()).isdisjoint(parent.values())
    for target, writes in pipes.items():
        assert any(may_write(seen.node.pid, number) is not writes for number, each in node.items() if each == target)
