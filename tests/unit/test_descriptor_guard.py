from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from windlass.worker.worker_main import DescriptorGuard


@pytest.fixture(params=["pipe", "socket"])
def descriptor(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return an open descriptor, which the test may close."""
    if request.param == "pipe":
        other, found = os.pipe()
    else:
        other, found = (end.detach() for end in socket.socketpair())
    yield found
    for each in (found, other):
        try:
            os.close(each)
        except OSError:
            assert each == found, "only the test closes it"


def test_an_untouched_descriptor_is_intact(descriptor: int) -> None:
    guard = DescriptorGuard(descriptor)

    os.write(descriptor, b"x")

    assert guard.intact()


def test_a_closed_descriptor_is_not_intact(descriptor: int) -> None:
    guard = DescriptorGuard(descriptor)

    os.close(descriptor)

    assert not guard.intact()


def test_a_descriptor_that_refers_to_another_file_of_the_same_kind_is_not_intact(descriptor: int) -> None:
    guard = DescriptorGuard(descriptor)
    reader, writer = os.pipe()
    end, other_end = (each.detach() for each in socket.socketpair())

    for other in (writer, end):
        os.dup2(other, descriptor)
        assert not guard.intact()

    for each in (reader, writer, end, other_end):
        os.close(each)


def test_a_descriptor_that_was_closed_and_came_back_is_intact(descriptor: int) -> None:
    guard = DescriptorGuard(descriptor)
    kept = os.dup(descriptor)
    os.close(descriptor)

    os.dup2(kept, descriptor)

    assert guard.intact()
    os.close(kept)
