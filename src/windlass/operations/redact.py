"""Remove secrets from everything that operations return, once for all interfaces.

Each function returns a value of the same type. Arguments and results stay JSON text. Workers read the store directly
and get the clear values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from windlass.core.fairness import SetBy
from windlass.core.manifest import CronState
from windlass.core.ordering import Queue
from windlass.core.payload import decode_stored, json_object
from windlass.core.retry import Error
from windlass.core.task import Attempt, Task
from windlass.core.why import Gate, Why
from windlass.errors import InvalidTask
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.redaction import HIDDEN, redact, redact_text
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Log, ProgressSeen, Session
from windlass.stores.workflow_reads import Step


def redact_task(task: Task, catalog: HandlerCatalog) -> Task:
    """Remove secrets from arguments, result and reason. The handler's schemas mark some values as secret."""
    return replace(
        task,
        args=_redact_args(task.args, catalog.parameters(task.handler)),
        result=None if task.result is None else _redact_json(task.result, catalog.returns(task.handler)),
        reason=redact_text(task.reason),
    )


def redact_attempt(attempt: Attempt) -> Attempt:
    """Remove secrets from the error of an attempt."""
    return attempt if attempt.error is None else replace(attempt, error=redact_error(attempt.error))


def redact_error(error: Error) -> Error:
    """Remove secrets that a message or a traceback repeats."""
    return replace(error, message=redact_text(error.message), traceback=redact_text(error.traceback))


def redact_log(log: Log) -> Log:
    """Remove secrets from the output of an attempt."""
    return replace(log, text=_redact_output(log.text))


@lru_cache(maxsize=64)
def _redact_output(text: str) -> str:
    """Remove secrets from an output. This takes 20 ms for a long one, which pages and streams read once a second."""
    return redact_text(text)


def redact_progress(seen: ProgressSeen) -> ProgressSeen:
    """Remove secrets from a progress message."""
    return ProgressSeen(seen.fence, seen.share, redact_text(seen.message), seen.at)


def redact_why(why: Why, catalog: HandlerCatalog) -> Why:
    """Remove secrets from an explanation, which repeats reasons."""
    gates = tuple(_redact_gate(gate) for gate in why.gates)
    return replace(why, task=redact_task(why.task, catalog), gates=gates)


def redact_step(step: Step) -> Step:
    """Remove secrets from the reason of a workflow step."""
    return step if step.reason is None else replace(step, reason=redact_text(step.reason))


def redact_entry(entry: EntrySeen) -> EntrySeen:
    """Remove secrets from the text and the data of an audit entry."""
    return replace(entry, text=redact_text(entry.text), data=redact_data(entry.data))


def redact_data(data: str) -> str:
    """Remove secrets from the data of an audit entry, which is JSON text or empty."""
    return msgspec.json.encode(redact_texts(redact(json_object(data)))).decode() if data else ""


def redact_texts(value: Any) -> Any:
    """Remove secrets from every text in a JSON value: data of entries repeats reasons and errors."""
    if isinstance(value, dict):
        return {name: redact_texts(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [redact_texts(each) for each in cast("list[Any]", value)]
    return redact_text(value) if isinstance(value, str) else value


def redact_queue(queue: Queue) -> Queue:
    """Remove secrets from the reason for a queue's pause."""
    return replace(queue, paused_why=redact_text(queue.paused_why))


def redact_set_by(set_by: SetBy | None) -> SetBy | None:
    """Remove secrets from the reason for a setting."""
    return None if set_by is None else replace(set_by, why=redact_text(set_by.why))


def redact_cron(cron: CronState, catalog: HandlerCatalog) -> CronState:
    """Remove secrets from the arguments of a cron and from the reason for its pause."""
    args = _redact_args(cron.info.args, catalog.parameters(cron.info.handler))
    return replace(cron, info=replace(cron.info, args=args), paused_why=redact_text(cron.paused_why))


def keep_hidden(given: Any, stored: Any, shown: Any, path: str = "args") -> Any:
    """Return edited JSON in which secrets that came back as they were shown have their stored values.

    `shown` is `stored` without secrets, as the person who edited it saw it. Raise `InvalidTask` where a marker of a
    secret stands for nothing that is stored.
    """
    if isinstance(given, str):
        if HIDDEN not in given or given == stored:
            return given
        if given == shown:
            return stored
        raise InvalidTask(f"{path} contains {HIDDEN}, which hides no stored value there. Give the value itself.")
    if isinstance(given, Mapping):
        members, old, seen = _members(cast("Any", given)), _members(stored), _members(shown)
        return {
            name: keep_hidden(member, old.get(name), seen.get(name), f"{path}.{name}")
            for name, member in members.items()
        }
    if isinstance(given, list):
        items = cast("list[Any]", given)
        old, seen = _items(stored, len(items)), _items(shown, len(items))
        return [keep_hidden(item, old[index], seen[index], f"{path}.{index}") for index, item in enumerate(items)]
    return given


def redact_session(session: Session) -> Session:
    """Remove secrets from what a node publishes about itself."""
    about = msgspec.json.encode(redact(json_object(session.about))).decode() if session.about else ""
    return replace(session, about=about)


def _members(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: Any, number: int) -> Sequence[Any]:
    """Return the items of a list. In one of another length, nobody can say which item is which."""
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return found if len(found) == number else [None] * number


def _redact_gate(gate: Gate) -> Gate:
    return replace(gate, text=redact_text(gate.text), fix=redact_text(gate.fix))


def _redact_args(text: str, schema: Mapping[str, Any]) -> str:
    return msgspec.json.encode(redact(decode_stored(text, is_object=True), schema)).decode()


def _redact_json(text: str, schema: Mapping[str, Any]) -> str:
    return msgspec.json.encode(redact(decode_stored(text), schema)).decode()
