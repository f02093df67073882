"""`windlass submit`: submit many tasks from a file or a pipe, one JSON object per line, as the HTTP API takes them.

Lines are submitted in chunks. A refused line is reported with its number and does not affect the others. A line with a
key may be submitted again: it never creates a second task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TypeAlias

import click

from windlass.cli.options import json_options, new_store_option, unchecked_option
from windlass.cli.output import echo, format_count, print_json, print_note, progress_bar
from windlass.core.submission import MAX_BATCH
from windlass.core.task import NewTask
from windlass.errors import InvalidTask, StoreError, WindlassError
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.stores.protocol import Receipt
from windlass.wire.commands import SubmitCounts
from windlass.wire.problems import problem_of
from windlass.wire.strict_json import decode_json
from windlass.wire.tasks import LineReceipt, SubmitTask, new_task

CHUNK = 1_000
MOST_REPORTED = 20
"""How many refused lines are reported one by one."""

Line: TypeAlias = tuple[int, bytes]
NumberedTask: TypeAlias = tuple[int, NewTask]


@click.command()
@click.argument("file", type=click.File("rb"))
@new_store_option
@json_options
@click.option("--atomic", is_flag=True, help=f"Submit all lines or none; at most {MAX_BATCH:,}.")
@unchecked_option
def submit(file: IO[bytes], access: Access, form: str | None, atomic: bool, unchecked: bool) -> None:
    """Submit many tasks, one JSON object per line.

    FILE may be - for standard input. A line looks like {"handler": "mail", "args": {"to": "ann"}, "key": "welcome:42"}.
    --json prints counts at the end, --jsonl a receipt for each line. Exit status 1 if a line was refused.
    """
    submitter = Submitter(access, unchecked=unchecked, receipts=form == "jsonl")
    with progress_bar("submitting", _size(file), "bytes") as advance:
        if atomic:
            submitter.submit_all(_lines(file, advance))
        else:
            submitter.submit_chunks(_lines(file, advance))
    counts = submitter.counts
    if form != "jsonl" and not print_json(form, counts):
        echo(f"{format_count(counts.lines, 'line')}: {_format(counts)}")
    if counts.refused:
        raise SystemExit(1)


def _format(counts: SubmitCounts) -> str:
    parts = ((counts.created, "created"), (counts.existing, "already submitted"), (counts.refused, "refused"))
    return ", ".join(f"{count:,} {word}" for count, word in parts if count or word == "created")


def _lines(file: Iterable[bytes], advance: Callable[[int], None]) -> Iterator[Line]:
    """Yield the lines that are not empty, with their numbers."""
    for number, line in enumerate(file, 1):
        advance(len(line))
        if line.strip():
            yield number, line


def _size(file: IO[bytes]) -> int | None:
    path = Path(str(getattr(file, "name", "")))
    return path.stat().st_size if path.is_file() else None


def _refuse_all(number: int, error: WindlassError) -> InvalidTask:
    return InvalidTask(f"line {number}: {str(error).rstrip('.')}. Nothing was submitted.")


class Submitter:
    """Submits lines and counts the results."""

    def __init__(self, access: Access, *, unchecked: bool, receipts: bool) -> None:
        self._access, self._unchecked, self._receipts = access, unchecked, receipts
        self.counts = SubmitCounts()

    def submit_chunks(self, lines: Iterator[Line]) -> None:
        """Submit chunk by chunk. If the store fails, report how far it got."""
        while chunk := list(islice(lines, CHUNK)):
            try:
                self._submit([new for line in chunk if (new := self._parse_or_refuse(line)) is not None])
            except StoreError:
                done = _format(self.counts)
                print_note(f"Stopped at line {chunk[0][0]}: {done}. Lines with a key can be submitted again.")
                raise
            self.counts.lines += len(chunk)

    def submit_all(self, lines: Iterator[Line]) -> None:
        """Submit all lines in one batch. Raise `InvalidTask` for the first bad line."""
        found = list(islice(lines, MAX_BATCH + 1))
        if len(found) > MAX_BATCH:
            raise InvalidTask(f"lines: more than {MAX_BATCH:,}. Remove --atomic, or submit fewer lines.")
        new = [(number, self._parse_atomic(number, line)) for number, line in found]
        try:
            receipts = tasks.submit(self._access, [task for _, task in new])
        except InvalidTask as error:
            if error.index is None:
                raise
            raise _refuse_all(new[error.index][0], error) from error
        self._count(new, receipts)
        self.counts.lines = len(new)

    def _parse_atomic(self, number: int, line: bytes) -> NewTask:
        try:
            return self._parse(line)
        except StoreError:
            raise
        except WindlassError as error:
            raise _refuse_all(number, error) from error

    def _parse_or_refuse(self, line: Line) -> NumberedTask | None:
        number, text = line
        try:
            return number, self._parse(text)
        except StoreError:
            raise
        except WindlassError as error:
            return self._refuse(number, error)

    def _parse(self, line: bytes) -> NewTask:
        return new_task(self._access, decode_json(line, SubmitTask, "line"), unchecked=self._unchecked)

    def _submit(self, new: Sequence[NumberedTask]) -> None:
        """Submit a chunk. Split a refused chunk in halves until the refused lines are alone."""
        if not new:
            return
        try:
            receipts = tasks.submit(self._access, [task for _, task in new])
        except StoreError:
            raise
        except WindlassError as error:
            if len(new) == 1:
                self._refuse(new[0][0], error)
                return
            self._submit(new[: len(new) // 2])
            self._submit(new[len(new) // 2 :])
        else:
            self._count(new, receipts)

    def _count(self, new: Sequence[NumberedTask], receipts: Sequence[Receipt]) -> None:
        self.counts.created += sum(receipt.created for receipt in receipts)
        self.counts.existing += sum(not receipt.created for receipt in receipts)
        if self._receipts:
            for (number, _), receipt in zip(new, receipts, strict=True):
                shape = LineReceipt(line=number, id=receipt.id, created=receipt.created, state=receipt.state)
                print_json("jsonl", shape)

    def _refuse(self, number: int, error: WindlassError) -> None:
        self.counts.refused += 1
        if self._receipts:
            print_json("jsonl", LineReceipt(line=number, error=problem_of(error)))
        if self.counts.refused <= MOST_REPORTED:
            print_note(f"line {number}: {error}")
        elif self.counts.refused == MOST_REPORTED + 1:
            print_note("… more lines were refused. --jsonl reports each of them.")
