"""`windlass pool` and `windlass breaker` on both stores: output, errors and exit statuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support.builders import a_session, submit_one
from tests.support.json_output import without_store
from tests.support.processes import open_store
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.settings import Settings
from windlass.autoscale.stored_state import PoolDecision, encode_document
from windlass.cli.main import main
from windlass.clock import SystemClock
from windlass.stores.protocol import Store

REPORT = PoolReport(queues=("mail",), min=1, max=8, override_max=8, target=3, ready=2, starting=1, running=2)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'windlass.db'}"
    return request.getfixturevalue("migrated_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with one node, whose pool `mail` has a target of three workers."""
    store = open_store(url.removeprefix("sqlite:///"))
    session = a_session(store, "node-1")
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": REPORT})).decode())
    decision = PoolDecision(
        tick=SystemClock().now() // 1_000_000, by="node-1", target=3, slots=3, queues=("mail",),
        settings=Settings(max=8), sentence="▲ 2→3  9 runnable", reasons=("9 runnable", "grow 2 → 3"),
    )  # fmt: skip
    assert store.put_control("pool", "mail", encode_document(decision), expect=0)
    yield store
    store.close()


@pytest.fixture
def windlass(url: str, store: Store) -> Callable[..., Result]:
    """Runs a command in this process."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, env={"WINDLASS_URL": url, "LOGNAME": "ann"})

    return run


def read(result: Result) -> Any:
    """Return the JSON document that a command printed, without the name of the store."""
    assert result.exit_code == 0, result.output
    return without_store(json.loads(result.stdout))


def show(windlass: Callable[..., Result]) -> Any:
    return read(windlass("pool", "show", "mail", "--json"))


def seconds_until(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() - SystemClock().now() / 1e6


def test_pools_are_listed_and_one_is_shown_with_its_reasons(windlass: Callable[..., Result], store: Store) -> None:
    submit_one(store, queue="mail")

    [listed] = read(windlass("pool", "show", "--json"))
    table, details = windlass("pool", "show"), windlass("pool", "show", "mail")

    assert (listed["name"], listed["target"], listed["live"], listed["ready"]) == ("mail", 3, 3, 2)
    assert listed == show(windlass) | {"oldest_seconds": listed["oldest_seconds"]}
    assert table.stdout.startswith("mail  2/3 workers, 2 running, 1 runnable")
    assert "(sizes itself)" in table.stdout
    for line in (
        "1 to 8 workers, wait goal 5 s",
        "▲ 2→3  9 runnable",
        "9 runnable → grow 2 → 3",
        "node-1: 2/3 workers",
    ):
        assert line in details.stdout


def test_without_pools_a_note_explains_how_to_start_a_node(tmp_path: Path) -> None:
    open_store(str(tmp_path / "empty.db")).close()
    env = {"WINDLASS_URL": f"sqlite:///{tmp_path / 'empty.db'}"}

    table = CliRunner().invoke(main, ["pool", "show"], env=env)
    document = CliRunner().invoke(main, ["pool", "show", "--json"], env=env)

    assert (table.exit_code, table.stdout) == (0, "")
    assert "windlass worker" in table.stderr
    assert read(document) == []


def test_a_size_is_set_for_some_time_and_ended(windlass: Callable[..., Result]) -> None:
    done = windlass("pool", "set", "mail", "12", "--for", "30m", "--why", "a sale", "--by", "ann")
    override = show(windlass)["override"]
    details = windlass("pool", "show", "mail").stdout
    resumed = windlass("pool", "resume", "mail")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "Pool mail has size 12 for 30m. `windlass pool resume mail` ends it." in done.stderr
    assert (override["min"], override["max"], override["by"], override["why"]) == (12, 12, "ann", "a sale")
    assert 1_790 < seconds_until(override["until"]) <= 1_800
    assert "set to 12 by ann: a sale, until" in details
    assert "(set by hand)" in details
    assert (resumed.exit_code, show(windlass)["override"]) == (0, None)


def test_a_size_lasts_an_hour_by_default(windlass: Callable[..., Result]) -> None:
    windlass("pool", "set", "mail", "2-8")

    override = show(windlass)["override"]
    assert (override["min"], override["max"]) == (2, 8)
    assert 3_590 < seconds_until(override["until"]) <= 3_600


def test_a_freeze_keeps_the_current_size(windlass: Callable[..., Result]) -> None:
    frozen = windlass("pool", "freeze", "mail", "--why", "an audit")

    assert "Pool mail stays at 3" in frozen.stderr
    assert show(windlass)["override"]["min"] == 3


def test_a_pause_is_shown_and_ended(windlass: Callable[..., Result]) -> None:
    windlass("pool", "pause", "mail", "--by", "ann", "--why", "a migration")
    paused, details = show(windlass)["paused"], windlass("pool", "show", "mail").stdout
    windlass("pool", "resume", "mail")

    assert (paused["by"], paused["why"]) == ("ann", "a migration")
    assert "(paused)" in details
    assert "by ann: a migration" in details
    assert show(windlass)["paused"] is None


def test_settings_are_tuned_and_restored(windlass: Callable[..., Result]) -> None:
    tuned = windlass("pool", "tune", "mail", "wait=2s", "max=12", "late=0.05", "deciders=slo,due")
    after = show(windlass)
    back = windlass("pool", "tune", "mail", "max=", "late=", "deciders=", "wait=")

    assert tuned.exit_code == 0, tuned.output
    assert "wait=2.0, max=12" in tuned.stderr
    assert (after["wait_seconds"], after["max"]) == (2.0, 12)
    assert after["tuned"] == {"wait": 2.0, "max": 12, "late": 0.05, "deciders": ["slo", "due"]}
    assert "Pool mail uses the settings of its nodes." in back.stderr
    assert (show(windlass)["tuned"], show(windlass)["max"]) == ({}, 8)


def test_history_lists_changes_newest_last(windlass: Callable[..., Result]) -> None:
    windlass("pool", "set", "mail", "5", "--by", "ann", "--why", "a sale")
    windlass("pool", "pause", "mail", "--by", "bob")
    windlass("pool", "resume", "mail", "--by", "bob")

    lines = windlass("pool", "history", "mail").stdout.splitlines()
    newest = read(windlass("pool", "history", "mail", "--json", "--limit", "1"))

    assert [line.partition("  ")[2].split()[0] for line in lines] == ["set", "paused", "resumed"]
    assert lines[0].endswith("set to 5 by ann for 1:00:00: a sale")
    assert [(entry["action"], entry["by"]) for entry in newest["entries"]] == [("resumed", "bob")]


def test_desired_prints_a_number(windlass: Callable[..., Result]) -> None:
    assert windlass("pool", "desired", "mail").stdout == "3\n"
    assert read(windlass("pool", "desired", "mail", "--json")) == {"pool": "mail", "workers": 3, "slots": 3}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("command", ["show", "set", "freeze", "pause", "resume", "tune", "history", "desired"])
def test_an_unknown_pool_has_its_own_exit_status(windlass: Callable[..., Result], command: str) -> None:
    more = {"set": ["3"], "tune": ["wait=2s"]}

    result = windlass("pool", command, "post", *more.get(command, []))

    assert result.exit_code == 4, result.output
    assert "post" in result.stderr
    assert "mail" in result.stderr, "the error names the known pools"
    assert "Traceback" not in result.output


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["pool", "set", "mail", "many"], "'many'"),
        (["pool", "set", "mail", "8-2"], "size=8..2"),
        (["pool", "set", "mail", "2-"], "'2-'"),
        (["pool", "set", "mail", "2-3-4"], "'2-3-4'"),
        (["pool", "set", "mail", "10001"], "size=10001"),
        (["pool", "set", "mail"], "SIZE"),
        (["pool", "set", "mail", "3", "--for", "soon"], "for='soon'"),
        (["pool", "set", "mail", "3", "--for", "0s"], "for='0s'"),
        (["pool", "set", "mail", "3", "--for", ""], "for=''"),
        (["pool", "set", "mail", "3", "--why", "x" * 501], "why="),
        (["pool", "freeze", "mail", "--for", "soon"], "for='soon'"),
        (["pool", "tune", "mail"], "SETTING=VALUE"),
        (["pool", "tune", "mail", "wait"], "'wait'"),
        (["pool", "tune", "mail", "wait=soon"], "wait='soon'"),
        (["pool", "tune", "mail", "wait=0"], "wait=0"),
        (["pool", "tune", "mail", "wait=nan"], "wait=nan"),
        (["pool", "tune", "mail", "service=inf"], "service=inf"),
        (["pool", "tune", "mail", "min=2.5"], "min=2.5"),
        (["pool", "tune", "mail", "colour=red"], "colour"),
        (["pool", "tune", "mail", "deciders=oracle"], "oracle"),
        (["pool", "tune", "mail", "min=9", "max=3"], "min=9"),
        (["pool", "history", "mail", "--limit", "0"], "--limit"),
        (["breaker", "open", "no name"], "downstream='no name'"),
        (["breaker", "open", "bank", "--create", "--for", "soon"], "for='soon'"),
        (["breaker", "open", "bank", "--why", "x" * 501], "why="),
        (["breaker", "close", "no name"], "downstream='no name'"),
        (["breaker", "open"], "NAME"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    windlass: Callable[..., Result], store: Store, words: Sequence[str], named: str
) -> None:
    result = windlass(*words)

    assert (result.exit_code, named in result.stderr) == (2, True), result.output
    assert "Traceback" not in result.output
    assert (store.controls("order"), store.controls("breaker"), store.audit()) == ([], [], [])


@pytest.mark.parametrize(
    "command", ["", "show", "set", "freeze", "pause", "resume", "tune", "history", "desired", "simulate"]
)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(main, ["pool", *command.split(), "--help"])

    assert result.exit_code == 0, result.output
    assert "Usage:" in result.stdout
    assert len(result.stdout.splitlines()) > 5


def test_a_breaker_is_held_open_listed_and_closed(windlass: Callable[..., Result], store: Store) -> None:
    opened = windlass("breaker", "open", "bank", "--create", "--for", "10m", "--why", "it is down", "--by", "ann")
    table, [held] = windlass("breaker", "ls").stdout, read(windlass("breaker", "ls", "--json"))
    closed = windlass("breaker", "close", "bank", "--by", "bob")
    [after] = read(windlass("breaker", "ls", "--json"))

    assert (opened.exit_code, closed.exit_code) == (0, 0)
    assert "Breaker bank is held open" in opened.stderr
    assert "held open by ann since" in table
    assert '"it is down"' in table
    assert (held["name"], held["state"], held["held_by"]) == ("bank", "open", "ann")
    assert (after["state"], after["held_by"]) == ("closed", "")
    assert [(entry.action, entry.by) for entry in store.audit("breaker/bank")] == [("closed", "bob"), ("held", "ann")]


def test_a_breaker_is_held_closed_for_some_time(windlass: Callable[..., Result], store: Store) -> None:
    windlass("breaker", "open", "bank", "--create", "--by", "bob", "--why", "it is down")
    windlass("breaker", "close", "bank", "--for", "10m", "--by", "ann", "--why", "false alarm")

    [held] = read(windlass("breaker", "ls", "--json"))

    assert held["held_by"] == "ann"
    assert "bank is held closed by ann" in held["sentence"]
    entries = [(entry.subject, entry.action, entry.by) for entry in store.audit()]
    assert entries == [("breaker/bank", "held", "ann"), ("breaker/bank", "held", "bob")]


def test_why_shows_a_breaker_that_is_held_open(windlass: Callable[..., Result], store: Store) -> None:
    id = submit_one(store, queue="mail", downstream="bank")
    windlass("breaker", "open", "bank", "--create", "--by", "ann", "--why", "it is down")

    result = windlass("why", str(id))

    assert result.exit_code == 3, result.output
    assert "bank is held open by ann" in result.stdout
    assert "windlass breaker close bank" in result.stdout


def test_without_breakers_nothing_is_listed(windlass: Callable[..., Result]) -> None:
    assert windlass("breaker", "ls").stdout == ""
    assert read(windlass("breaker", "ls", "--json")) == []
