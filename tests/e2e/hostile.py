"""The app of `tests.e2e.shop` with handlers that misbehave. Each first records that it has started."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import pwd
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil

import windlass
from tests.e2e.shop import app, catch_soft_limit, effect, sleep
from windlass.core.task import TaskId
from windlass.stores.protocol import Filter
from windlass.worker.remote import encode_call
from windlass.worker.wire import encode_frame

__all__ = ["app", "catch_soft_limit", "sleep"]


def sockets() -> list[int]:
    """Return the socket descriptors of this process. In a worker, one of them is the socket to its node."""
    return [int(file.name) for file in Path("/proc/self/fd").iterdir() if str(_target(file)).startswith("socket:")]


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


@app.task
def neighbor(number: int) -> int:
    effect("neighbor")
    return number


@app.task
def write_bytes(data: str) -> None:
    """Write these bytes, given in hexadecimal, to every socket."""
    effect("began")
    for descriptor in sockets():
        os.write(descriptor, bytes.fromhex(data))
    time.sleep(60)


def pipes() -> list[int]:
    """Return the pipes of the worker process."""
    files = Path("/proc/self/fd").iterdir()
    return [int(file.name) for file in files if _target(file).startswith("pipe:") and int(file.name) > 256]


@app.task
def write_bytes_to_pipes(data: str) -> None:
    """Write these bytes, given in hexadecimal, to every pipe that the worker writes to."""
    effect("began")
    for descriptor in pipes():
        with suppress(OSError):  # It is open for reading only.
            os.write(descriptor, bytes.fromhex(data))
    time.sleep(60)


@app.task
def look_around(other: str) -> list[str]:
    """Try to see and change a task of another tenant, and what concerns all tenants. Return what succeeded."""
    effect("began")
    store, id = app.store, TaskId(UUID(other))
    tries: dict[str, Callable[[], object]] = {
        "get": lambda: store.get([id])[0],
        "find": lambda: [task for task in store.find(Filter()).tasks if task.id == id],
        "find by tenant": lambda: store.find(Filter(tenant="globex")),
        "cancel": lambda: store.cancel([id], reason="mine"),
        "controls": lambda: store.controls("token"),
        "audit": lambda: store.audit(limit=1),
        "enqueue": lambda: neighbor.using(tenant="globex").enqueue(1),
        "enqueue for itself": lambda: neighbor.enqueue(1).result(30),
    }
    succeeded: list[str] = []
    for name, attempt in tries.items():
        with suppress(windlass.NotAllowed):
            if attempt():
                succeeded.append(name)
    return succeeded


@app.task
def flood_with_calls(number: int) -> None:
    """Send calls without waiting for their answers: as many as any socket of the worker buffers."""
    effect("began")
    data = b"".join(encode_frame(encode_call(1_000_000 + n, 0, "find", (Filter(),), {})) for n in range(number))
    for descriptor in sockets():
        socket.socket(fileno=os.dup(descriptor)).sendall(data)


# Time


@app.task
async def block_loop(seconds: float) -> None:
    effect("began")
    time.sleep(seconds)


@app.task
def hold_interpreter(seconds: int) -> str:
    """Hold the interpreter lock in C code, so that no other thread of the worker runs."""
    effect("began")
    ctypes.PyDLL(None).sleep(seconds)
    return "slept"


@app.task
async def stop_loop() -> str:
    effect("began")
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)
    return "went on"


@app.task
async def swallow() -> None:
    """Continue, whatever is raised in it."""
    effect("began")
    while True:
        with suppress(BaseException):
            await asyncio.sleep(60)


@app.task
async def swallow_and_spin() -> None:
    """Continue without ever yielding to the event loop."""
    effect("began")
    while True:
        with suppress(BaseException):
            time.sleep(60)


@app.task
def stop_process() -> None:
    effect("began")
    os.kill(os.getpid(), signal.SIGSTOP)


# Errors


class Unprintable(Exception):
    """An error whose `str` and `repr` raise."""

    def __init__(self, raises: type[BaseException]) -> None:
        self.raises = raises

    def __str__(self) -> str:
        raise self.raises

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise self.raises


@app.task
def raise_unprintable(kind: str) -> None:
    effect("began")
    kinds = {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt, "TypeError": TypeError}
    raise Unprintable(kinds[kind])


@app.task
async def araise_unprintable() -> None:
    effect("began")
    raise Unprintable(SystemExit)


@app.task
def raise_invalid_text() -> None:
    effect("began")
    raise OSError("\udcff\0")


class Markup(str):
    """A subclass of str whose `str()` is of the same class, as in template libraries."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


@app.task
def raise_markup() -> None:
    effect("began")
    raise OSError(Markup("<b>no</b>"))


@app.task
def report_progress_as(kind: str) -> None:
    """Report progress with a number that is not a float."""
    effect("began")
    windlass.current().progress({"Decimal": Decimal("0.5"), "bool": True}[kind], Markup("half"))  # pyright: ignore[reportArgumentType]


# Descriptors


@app.task
def close_descriptors(first: int, last: int) -> str:
    effect("began")
    os.closerange(first, last)
    return "closed"


@app.task
async def aclose_descriptors(first: int, last: int) -> str:
    effect("began")
    os.closerange(first, last)
    await asyncio.sleep(0.01)
    return "closed"


@app.task
def replace_descriptors(first: int, last: int) -> str:
    """Replace every descriptor by a socket whose other end never answers."""
    effect("began")
    mine, theirs = socket.socketpair()
    kept.append(theirs)
    for descriptor in range(first, last):
        os.dup2(mine.fileno(), descriptor)
    return "replaced"


kept: list[socket.socket] = []


@app.task
def replace_ticket_queue() -> str:
    """Replace the pipes of the worker by one that stays empty."""
    effect("began")
    reader, _ = os.pipe()
    for descriptor in pipes():
        os.dup2(reader, descriptor)
    return "replaced"


@app.task
def replace_pipes(file: str) -> None:
    """Replace the pipes of the worker by a file."""
    effect("began")
    opened = os.open(file, os.O_RDWR | os.O_CREAT)
    for descriptor in pipes():
        os.dup2(opened, descriptor)


@app.task
def close_standard_streams() -> None:
    effect("began")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.close()
    os.closerange(0, 3)
    sys.stdout.write("to nobody")


@app.task
def print_much() -> None:
    effect("began")
    for _ in range(200):
        sys.stdout.write("x" * 20_000)


# Processes


@app.task
def exhaust_stack() -> None:
    """Recurse in C code until the stack overflows."""
    effect("began")
    sys.setrecursionlimit(1 << 30)
    callback = ctypes.CFUNCTYPE(None)

    @callback
    def deeper() -> None:
        deeper()

    deeper()


@app.task
def exit_with_hanging_handler(how: str) -> None:
    effect("began")
    atexit.register(time.sleep, 60)
    if how == "sys.exit":
        sys.exit(3)
    ctypes.pythonapi.Py_Exit(3)


@app.task
def leave(how: str) -> None:
    effect("began")
    match how:
        case "os._exit":
            os._exit(0)
        case "kill the group":
            os.killpg(0, signal.SIGKILL)
        case _:
            raise AssertionError(how)


@app.task
def fork_and_return() -> str:
    effect("began")
    return "child" if os.fork() == 0 else "parent"


@app.task
def fork_and_raise() -> str:
    effect("began")
    if os.fork() == 0:
        raise ValueError("in the child")
    return "parent"


@app.task
async def afork_and_return() -> str:
    effect("began")
    return "child" if os.fork() == 0 else "parent"


@app.task
async def afork_and_wait() -> str:
    effect("began")
    child = os.fork() == 0
    await asyncio.sleep(0.05)
    return "child" if child else "parent"


@app.task
def enqueue_in_child() -> int:
    """Return the exit status of a child that tries to enqueue: 7 if that is refused."""
    effect("began")
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        neighbor.enqueue(1)
    except windlass.NotAllowed:
        os._exit(7)
    os._exit(0)


@app.task
def daemonize(seconds: float) -> int:
    """Leave a daemon behind, and return its process id."""
    effect("began")
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        daemon = os.fork()
        if daemon:
            os.write(writer, str(daemon).encode())
            os._exit(0)
        time.sleep(seconds)
        os._exit(0)
    os.wait()
    return int(os.read(reader, 32))


@app.task
def leave_thread() -> None:
    effect("began")
    threading.Thread(target=time.sleep, args=(60,)).start()


@app.task
def replace_signals() -> None:
    effect("began")
    for number in (signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@app.task
def signal_parent(number: int) -> None:
    effect("began")
    os.kill(os.getppid(), number)


@app.task
def bomb(processes: int) -> None:
    """Start a process that forks without end, as do all its children, as a user who may have this many more."""
    effect("began")
    if os.fork() == 0:
        if os.geteuid() == 0:  # The limit does not apply to root.
            os.setuid(pwd.getpwnam("nobody").pw_uid)
        most = processes + sum(one.num_threads() for one in psutil.process_iter() if _is_own(one))
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        while True:
            with suppress(BlockingIOError):  # There are as many as allowed.
                os.fork()
            time.sleep(0.01)
    time.sleep(60)


def _is_own(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.uids().real == os.getuid()
    return False
