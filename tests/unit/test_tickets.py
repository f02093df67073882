from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from math import inf, nan

import pytest

from windlass.worker.tickets import EXIT_TICKET, EndQueue, TicketQueue, TicketReader, encode_end


@pytest.fixture
def queue() -> Iterator[TicketQueue]:
    queue = TicketQueue()
    yield queue
    queue.close()


@pytest.fixture
def reader(queue: TicketQueue) -> Iterator[TicketReader]:
    """Return the worker's side of the queue."""
    descriptor = queue.duplicate_reader()
    yield TicketReader(descriptor)
    os.close(descriptor)


@pytest.fixture
def ends() -> Iterator[EndQueue]:
    ends = EndQueue()
    yield ends
    ends.close()


@pytest.fixture
def writer(ends: EndQueue) -> Iterator[int]:
    """Return the worker's end of the pipe of ends."""
    descriptor = ends.detach_writer()
    yield descriptor
    with suppress(OSError):
        os.close(descriptor)


def test_the_node_takes_back_what_the_worker_has_not_taken(queue: TicketQueue, reader: TicketReader) -> None:
    queue.offer([1, 2, 3])

    assert reader.take() == 1
    assert queue.take_back() == [2, 3]
    queue.offer([4])
    assert reader.take() == 4


def test_each_ticket_is_taken_once(queue: TicketQueue, reader: TicketReader) -> None:
    tickets, begun, back = list(range(1, 5_001)), list[int](), list[int]()

    def work() -> None:
        while (ticket := reader.take()) != EXIT_TICKET:
            begun.append(ticket)

    worker = threading.Thread(target=work)
    worker.start()
    for start in range(0, len(tickets), 10):
        queue.offer(tickets[start : start + 10])
        back += queue.take_back()
    queue.offer([EXIT_TICKET])
    worker.join()

    assert sorted(begun + back) == tickets


def test_the_request_to_exit_stays_when_everything_is_taken_back(queue: TicketQueue, reader: TicketReader) -> None:
    queue.offer([1, EXIT_TICKET])

    assert queue.take_back() == [1]
    assert reader.take() == EXIT_TICKET


def test_a_full_queue_refuses_tickets(queue: TicketQueue) -> None:
    assert not queue.offer(list(range(1, 100_000)))


def test_a_worker_whose_node_is_gone_exits() -> None:
    queue = TicketQueue()
    descriptor = queue.duplicate_reader()
    queue.close()

    assert TicketReader(descriptor).take() == EXIT_TICKET
    os.close(descriptor)


def test_ends_arrive_in_order_and_outlive_the_worker(ends: EndQueue, writer: int) -> None:
    assert ends.receive() == ([], True)

    for ticket in (7, 8, 9):
        os.write(writer, encode_end(ticket, ticket / 10))
    os.close(writer)

    assert ends.receive() == ([(7, 0.7), (8, 0.8), (9, 0.9)], True)
    assert ends.receive() == ([], False)
    assert ends.broken is None


def test_one_read_takes_everything_that_a_pipe_of_ends_holds(ends: EndQueue, writer: int) -> None:
    os.set_blocking(writer, False)
    written = 0
    with suppress(BlockingIOError):
        while True:
            os.write(writer, encode_end(written + 1, 0.0))
            written += 1

    received, _ = ends.receive()

    assert len(received) == written


@pytest.mark.parametrize("stray", [b"hello", encode_end(2, nan), encode_end(2, -1.0), encode_end(2, inf)])
def test_ends_before_stray_bytes_count(ends: EndQueue, writer: int, stray: bytes) -> None:
    os.write(writer, encode_end(1, 0.5) + stray)

    assert ends.receive() == ([(1, 0.5)], False)
    assert ends.broken is not None
