"""`windlass submit`: many tasks from a file or a pipe, one a line, as the HTTP API takes them.

Lines are written in chunks, each whole or not at all; one that is refused is told with its number and harms none of its
neighbours. A line with a key can be submitted as often as one likes: a second run goes on where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import asdict

from windlass.cli.output import form_options, number_of, print_json_form, print_note
from windlass.cli.progress import bar
from windlass.cli.stores import opened, store_option
from windlass.core.submission import MAX_BATCH
from windlass.core.task import NewTask
from windlass.errors import InvalidTask, StoreError, WindlassError
from windlass.operations.access import Access
from windlass.stores.protocol import Receipt, Store
from windlass.wire.problems import problem_of
from windlass.wire.strict_json import decode_json
from windlass.wire.tasks import LineReceipt, SubmitTask, new_task

CHUNK = 1_000
MOST_TOLD = 20
"""So many refused lines are told one by one."""

Line: TypeAlias = tuple[int, bytes]
Numbered: TypeAlias = tuple[int, NewTask]


class Tally(Struct, kw_only=True):
    """What became of the lines."""

    lines: int = 0
    created: int = 0
    existing: int = 0
    refused: int = 0


@click.command()
@click.argument("file", type=click.File("rb"))
@store_option
@form_options
@click.option("--atomic", is_flag=True, help=f"All lines or none; at most {MAX_BATCH:,} of them.")
@click.option("--unchecked", is_flag=True, help="Take handlers that no node has published yet.")
def submit(file: IO[bytes], store_url: str | None, form: str | None, atomic: bool, unchecked: bool) -> None:
    """Submit the tasks in FILE, one JSON object a line; - is standard input.

    A line is as in {"handler": "mail", "args": {"to": "ann"}, "key": "welcome:42"}. --json prints the numbers at the
    end, --jsonl a receipt for each line. Exit status 1 if a line was refused.
    """
    intake = Intake(opened(store_url), unchecked=unchecked, receipts=form == "jsonl")
    with bar("submitting", _size(file), "bytes") as advance:
        if atomic:
            intake.whole(_lines(file, advance))
        else:
            intake.in_chunks(_lines(file, advance))
    tally = intake.tally
    if form != "jsonl" and not print_json_form(form, asdict(tally)):
        click.echo(f"{number_of(tally.lines, 'line')}: {_told(tally)}")
    if tally.refused:
        raise SystemExit(1)


def _told(tally: Tally) -> str:
    parts = ((tally.created, "created"), (tally.existing, "there already"), (tally.refused, "refused"))
    return ", ".join(f"{count:,} {word}" for count, word in parts if count or word == "created")


def _lines(file: Iterable[bytes], advance: Callable[[int], None]) -> Iterator[Line]:
    """The lines that are not empty, by their number."""
    for number, line in enumerate(file, 1):
        advance(len(line))
        if line.strip():
            yield number, line


def _size(file: IO[bytes]) -> int | None:
    path = Path(str(getattr(file, "name", "")))
    return path.stat().st_size if path.is_file() else None


class Intake:
    """Takes lines, and counts what becomes of them."""

    def __init__(self, store: Store, *, unchecked: bool, receipts: bool) -> None:
        self._store, self._unchecked, self._receipts = store, unchecked, receipts
        self._access = Access(store)
        self.tally = Tally()

    def in_chunks(self, lines: Iterator[Line]) -> None:
        """Write what can be written. When the store goes away, say how far it has come."""
        while chunk := list(islice(lines, CHUNK)):
            try:
                self._write([new for line in chunk if (new := self._read(line)) is not None])
            except StoreError:
                print_note(
                    f"stopped at line {chunk[0][0]}: {_told(self.tally)}; lines with a key can be submitted again"
                )
                raise
            self.tally.lines += len(chunk)

    def whole(self, lines: Iterator[Line]) -> None:
        """All lines in one batch, or an error that names the first bad one."""
        found = list(islice(lines, MAX_BATCH + 1))
        if len(found) > MAX_BATCH:
            raise InvalidTask(f"lines: more than {MAX_BATCH:,}; leave --atomic out, or give fewer")
        new = [(number, self._task(number, line)) for number, line in found]
        try:
            receipts = self._store.submit([task for _, task in new])
        except InvalidTask as error:
            if error.index is None:
                raise
            raise InvalidTask(f"line {new[error.index][0]}: {error}; nothing was submitted") from error
        self._count(new, receipts)
        self.tally.lines = len(new)

    def _task(self, number: int, line: bytes) -> NewTask:
        try:
            return new_task(self._access, decode_json(line, SubmitTask, "line"), unchecked=self._unchecked)
        except StoreError:
            raise
        except WindlassError as error:
            raise InvalidTask(f"line {number}: {error}; nothing was submitted") from error

    def _read(self, line: Line) -> Numbered | None:
        number, text = line
        try:
            return number, new_task(self._access, decode_json(text, SubmitTask, "line"), unchecked=self._unchecked)
        except StoreError:
            raise
        except WindlassError as error:
            return self._refuse(number, error)

    def _write(self, new: Sequence[Numbered]) -> None:
        """Submit a chunk; one that is refused is halved until the line at fault stands alone."""
        if not new:
            return
        try:
            receipts = self._store.submit([task for _, task in new])
        except StoreError:
            raise
        except WindlassError as error:
            if len(new) == 1:
                self._refuse(new[0][0], error)
                return
            self._write(new[: len(new) // 2])
            self._write(new[len(new) // 2 :])
        else:
            self._count(new, receipts)

    def _count(self, new: Sequence[Numbered], receipts: Sequence[Receipt]) -> None:
        self.tally.created += sum(receipt.created for receipt in receipts)
        self.tally.existing += sum(not receipt.created for receipt in receipts)
        if self._receipts:
            for (number, _), receipt in zip(new, receipts, strict=True):
                shape = LineReceipt(line=number, id=receipt.id, created=receipt.created, state=receipt.state)
                print_json_form("jsonl", shape)

    def _refuse(self, number: int, error: WindlassError) -> None:
        self.tally.refused += 1
        if self._receipts:
            print_json_form("jsonl", LineReceipt(line=number, error=problem_of(error)))
        if self.tally.refused <= MOST_TOLD:
            print_note(f"line {number}: {error}")
        elif self.tally.refused == MOST_TOLD + 1:
            print_note("… more lines were refused; --jsonl tells of each")
