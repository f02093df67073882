"""What the test does in a process of the project, with a worker running: `manage.py shell` without a prompt."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta
from typing import Any

import django
from django.db import transaction
from django.utils import timezone

django.setup()

from orders.models import Order  # noqa: E402
from orders.services import place_order, place_order_atomically  # noqa: E402
from orders.tasks import count_orders, remind, send_invoice  # noqa: E402
from windlass.integrations.django import app  # noqa: E402
from windlass.integrations.django.backend import _exceptions as exceptions  # noqa: E402
from windlass.integrations.django.backend import _signals as signals  # noqa: E402
from windlass.stores.protocol import Filter  # noqa: E402


class UndoError(Exception):
    """Rolls a transaction back."""


def ended(result: Any) -> Any:
    """Wait until a Django task has finished."""
    app.handle(result.id).wait(30)
    result.refresh()
    return result


def rolled_back(work: Any) -> int:
    """Run work in a transaction that is rolled back. Return how many tasks it left."""
    before = len(app.store.find(Filter()).tasks)
    try:
        with transaction.atomic():
            work()
            raise UndoError
    except UndoError:
        return len(app.store.find(Filter()).tasks) - before


def invoices() -> dict[str, Any]:
    """Orders with tasks after the commit, and in the same transaction."""
    placed = [place_order("lamp"), place_order_atomically("desk")]
    handles = [app.handle(task.id) for task in app.store.find(Filter()).tasks]
    results = sorted(handle.result(30) for handle in handles)
    for order in placed:
        order.refresh_from_db()
    return {
        "results": results,
        "invoiced": [order.invoiced for order in placed],
        "left": [rolled_back(lambda: place_order("x")), rolled_back(lambda: place_order_atomically("x"))],
        "orders": Order.objects.count(),
    }


def django_tasks() -> dict[str, Any]:
    """Tasks of the tasks API: results, contexts, errors, times, transactions."""
    from orders.more_tasks import explode, misuse, slow_answer

    enqueued: list[str] = []
    signals.task_enqueued.connect(lambda task_result, **_: enqueued.append(task_result.id), weak=False)
    counted = count_orders.enqueue("lamp")
    status = counted.status
    with transaction.atomic():
        joined = count_orders.enqueue(item="desk")
        try:
            count_orders.get_result(joined.id)
            hidden = False
        except exceptions.TaskResultDoesNotExist:
            hidden = True
    reminded = asyncio.run(remind.aenqueue("ann@example.org"))
    later = count_orders.using(run_after=timezone.now() + timedelta(hours=1), priority=-5).enqueue("lamp")
    exploded, wrong = explode.enqueue(), misuse.enqueue()
    slow = slow_answer.enqueue()
    while slow.status == "READY":
        slow.refresh()
        time.sleep(0.01)
    running = slow.status, slow.attempts, slow.started_at is not None
    send_invoice_task = send_invoice.using(queue="nobody").enqueue(1)
    for id in (str(send_invoice_task.id), "nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"):
        try:
            count_orders.get_result(id)
        except exceptions.TaskResultDoesNotExist:
            continue
        raise AssertionError(f"{id} has a result")
    for result in (counted, joined, reminded, exploded, wrong, slow):
        ended(result)
    stored = count_orders.get_result(counted.id)
    later.refresh()
    task = app.handle(later.id).task()
    return {
        "left": rolled_back(lambda: count_orders.enqueue("x")),
        "enqueued": enqueued[:7] == [r.id for r in (counted, joined, reminded, later, exploded, wrong, slow)],
        "status": [status, counted.status, later.status],
        "hidden": hidden,
        "values": [counted.return_value, joined.return_value, reminded.return_value, slow.return_value],
        "running": running,
        "stored": [stored.args, stored.kwargs, stored.task.queue_name, stored.task.priority, stored.attempts],
        "times": stored.enqueued_at <= stored.started_at <= stored.finished_at,
        "later": [task.state, task.priority, task.due - task.submitted > timedelta(minutes=50)],
        "failed": [exploded.status, exploded.attempts],
        "errors": [error.exception_class.__name__ for error in exploded.errors],
        "traceback": "in explode" in exploded.errors[0].traceback,
        "wrong": [error.exception_class_path for error in wrong.errors],
    }


if __name__ == "__main__":
    json.dump({"invoices": invoices, "django_tasks": django_tasks}[sys.argv[1]](), sys.stdout)
    app.close()
