"""What keys change: each action takes the author and reason, and returns a message about what it did."""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.operations import crons, nodes, pools, queues, tasks, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author

Action = Callable[[Access, Author], str]


def retry(id: TaskId) -> Action:
    """Return the action that retries a failed, cancelled or expired task."""

    def act(access: Access, author: Author) -> str:
        if not tasks.retry(access, id, author).tasks:
            return f"Task {id} was not retried. Only failed, cancelled and expired tasks can be retried."
        return f"Retried task {id}."

    return act


def cancel(id: TaskId) -> Action:
    """Return the action that cancels an unfinished task."""

    def act(access: Access, author: Author) -> str:
        if not tasks.cancel(access, id, author).tasks:
            return f"Task {id} was not cancelled. It has already ended."
        return f"Cancelled task {id}."

    return act


def pause_queue(name: str) -> Action:
    """Return the action that pauses a queue."""

    def act(access: Access, author: Author) -> str:
        queues.pause(access, name, author)
        return f"Queue {name} is paused."

    return act


def resume_queue(name: str) -> Action:
    """Return the action that resumes a queue."""

    def act(access: Access, author: Author) -> str:
        queues.resume(access, name, author)
        return f"Queue {name} is open."

    return act


def weigh_queue(name: str, weight: int) -> Action:
    """Return the action that sets the weight of a queue."""

    def act(access: Access, author: Author) -> str:
        queues.change(access, name, {"weight": weight}, author)
        return f"Queue {name} has weight {weight}."

    return act


def make_queue_fair(name: str, fair: bool) -> Action:
    """Return the action that makes a queue fair between its tenants, or not."""

    def act(access: Access, author: Author) -> str:
        queues.change(access, name, {"fair": fair}, author)
        return f"Queue {name} is {'fair' if fair else 'not fair'}."

    return act


def weigh_tenant(name: str, weight: int | None) -> Action:
    """Return the action that sets the weight of a tenant; None restores the default."""

    def act(access: Access, author: Author) -> str:
        found = tenants.set_weight(access, name, weight, author)
        return f"Tenant {name} has weight {found.settings.weight}."

    return act


def pause_cron(name: str) -> Action:
    """Return the action that pauses a cron."""

    def act(access: Access, author: Author) -> str:
        crons.pause(access, name, author)
        return f"Cron {name} is paused."

    return act


def resume_cron(name: str) -> Action:
    """Return the action that resumes a cron."""

    def act(access: Access, author: Author) -> str:
        found = crons.resume(access, name, author)
        return f"Cron {name} is resumed. Misfire policy for missed runs: {found.state.info.misfire}."

    return act


def pause_tenant(name: str) -> Action:
    """Return the action that pauses a tenant."""

    def act(access: Access, author: Author) -> str:
        tenants.pause(access, name, author)
        return f"Tenant {name} is paused."

    return act


def resume_tenant(name: str) -> Action:
    """Return the action that resumes a tenant."""

    def act(access: Access, author: Author) -> str:
        tenants.resume(access, name, author)
        return f"Tenant {name} is open."

    return act


def set_pool(name: str, size: tuple[int, int]) -> Action:
    """Return the action that sets the size of a pool for an hour."""

    def act(access: Access, author: Author) -> str:
        pools.set_size(access, name, *size, author=author)
        least, most = size
        return f"Pool {name} has size {least if least == most else f'{least} to {most}'} for 1h."

    return act


def freeze_pool(name: str) -> Action:
    """Return the action that keeps a pool at its current size."""

    def act(access: Access, author: Author) -> str:
        override = pools.freeze(access, name, author=author).override
        return f"Pool {name} stays at {override.min if override else '–'}."

    return act


def pause_pool(name: str) -> Action:
    """Return the action that pauses a pool."""

    def act(access: Access, author: Author) -> str:
        pools.pause(access, name, author=author)
        return f"Pool {name} is paused."

    return act


def resume_pool(name: str) -> Action:
    """Return the action that ends a pause or a size set by hand."""

    def act(access: Access, author: Author) -> str:
        pools.resume(access, name, author=author)
        return f"Pool {name} sizes itself again."

    return act


def drain(session: str, worker: int | None, what: str) -> Action:
    """Return the action that drains a worker, or the whole node without a number."""

    def act(access: Access, author: Author) -> str:
        nodes.drain(access, session, worker, author=author)
        return f"{what} drains: it finishes its running tasks and exits."

    return act


def stop(session: str, worker: int | None, what: str) -> Action:
    """Return the action that stops a worker, or the whole node without a number."""

    def act(access: Access, author: Author) -> str:
        nodes.stop(access, session, worker, author=author)
        return f"{what} stops. Tasks that still run after {nodes.GRACE.seconds} s are released."

    return act


def parse_size(text: str) -> tuple[int, int]:
    """Parse a number of workers, or a range."""
    least, dash, most = text.partition("-")
    try:
        return int(least), int(most if dash else least)
    except ValueError:
        raise InvalidTask(f"size={text!r} is not a size. Use a number such as 12, or a range such as 2-8.") from None


def parse_weight(text: str) -> int:
    """Parse a weight."""
    if not text.isdecimal():
        raise InvalidTask(f"weight={text!r} is not a weight. Use a number from 1 to 1000.")
    return int(text)
