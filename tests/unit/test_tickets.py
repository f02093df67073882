from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from windlass.worker.tickets import EXIT_TICKET, TicketQueue, take


@pytest.fixture
def queue() -> Iterator[TicketQueue]:
    queue = TicketQueue()
    yield queue
    queue.close()


@pytest.fixture
def reader(queue: TicketQueue) -> Iterator[int]:
    """Return the worker's end of the queue."""
    reader = queue.duplicate_reader()
    yield reader
    os.close(reader)


def test_the_node_takes_back_what_the_worker_has_not_taken(queue: TicketQueue, reader: int) -> None:
    queue.offer([1, 2, 3])

    assert take(reader) == 1
    assert queue.take_back() == [2, 3]
    queue.offer([4])
    assert take(reader) == 4


def test_each_ticket_is_taken_once(queue: TicketQueue, reader: int) -> None:
    tickets, begun, back = list(range(1, 5_001)), list[int](), list[int]()

    def work() -> None:
        while (ticket := take(reader)) != EXIT_TICKET:
            begun.append(ticket)

    worker = threading.Thread(target=work)
    worker.start()
    for start in range(0, len(tickets), 10):
        queue.offer(tickets[start : start + 10])
        back += queue.take_back()
    queue.offer([EXIT_TICKET])
    worker.join()

    assert sorted(begun + back) == tickets


def test_the_request_to_exit_stays_when_everything_is_taken_back(queue: TicketQueue, reader: int) -> None:
    queue.offer([1, EXIT_TICKET])

    assert queue.take_back() == [1]
    assert take(reader) == EXIT_TICKET


def test_a_full_queue_refuses_tickets(queue: TicketQueue) -> None:
    assert not queue.offer(list(range(1, 100_000)))


def test_a_worker_whose_node_is_gone_exits() -> None:
    queue = TicketQueue()
    reader = queue.duplicate_reader()
    queue.close()

    assert take(reader) == EXIT_TICKET
    os.close(reader)
