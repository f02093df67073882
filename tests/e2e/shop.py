"""The app of the tests' nodes. Handlers record what they do in the file `$WINDLASS_EFFECTS`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

import windlass
from windlass.core.retry import Retry

app = windlass.App()
started: list[str] = []
AT_ONCE = Retry(base=timedelta(0))
"""Retries without a wait."""


def effect(what: str, **more: Any) -> None:
    """Append one line. A single write with O_APPEND is atomic."""
    context = windlass.current()
    line = {
        "what": what,
        "task": str(context.task_id),
        "fence": context.fence,
        "attempt": context.attempt,
        "pid": os.getpid(),
        "at": time.monotonic(),
        **more,
    }
    file = os.open(os.environ["WINDLASS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, json.dumps(line).encode() + b"\n")
    os.close(file)


@app.on_worker_start
def load() -> None:
    started.append("hook")


@app.task
def add(a: int, b: int = 1) -> int:
    effect("add")
    return a + b


@app.task
def nothing() -> None:
    effect("nothing")


@app.task
async def anothing() -> None:
    """Do nothing, on the event loop."""


@app.task
def length(text: str) -> int:
    return len(text)


@app.task
def hooks() -> list[str]:
    return started


@app.task
async def aadd(a: int, b: int) -> int:
    effect("aadd")
    await asyncio.sleep(0)
    return a + b


@app.task
async def nap(seconds: float) -> None:
    effect("began")
    await asyncio.sleep(seconds)
    effect("ended")


@app.task
def sleep(seconds: float) -> str:
    effect("began")
    time.sleep(seconds)
    effect("ended")
    return "slept"


def first_time() -> bool:
    """Return True on the first call by this task, in any process and on any node."""
    try:
        os.close(os.open(f"{os.environ['WINDLASS_EFFECTS']}.{windlass.current().task_id}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def control_file(name: str) -> Path:
    """Return a file next to the effects, with which the test controls handlers."""
    return Path(os.environ["WINDLASS_EFFECTS"]).with_name(name)


def await_gate() -> None:
    """Wait until the test opens the gate."""
    while not control_file("gate").exists():
        time.sleep(0.01)


@app.task
def sleep_once(seconds: float) -> str:
    """Sleep in the first attempt only."""
    effect("began")
    if not first_time():
        return "again"
    time.sleep(seconds)
    effect("ended")
    return "first"


@app.task
def gated_once() -> str:
    """Wait for the gate in the first attempt only."""
    effect("began")
    if not first_time():
        return "again"
    await_gate()
    effect("ended")
    return "first"


@app.task
def leave_daemon() -> None:
    """Start a process that loses its parent, and run until the test opens the gate."""
    shell = ["sh", "-c", "setsid sleep 600 > /dev/null & echo $!"]
    effect("left", daemon=int(subprocess.run(shell, stdout=subprocess.PIPE, check=True).stdout))
    await_gate()


@app.task
def pass_gate() -> str:
    """Run until the test opens the gate."""
    effect("began")
    await_gate()
    return "passed"


@app.task(downstream="bank", retry=Retry(retries=10, base=timedelta(seconds=1)))
def pay() -> str:
    """Fail after a while if the bank is down. Wait for the gate if the bank is slow."""
    effect("began")
    if control_file("down").exists():
        time.sleep(0.2)
        raise ConnectionError("the bank is down")
    if control_file("slow").exists():
        await_gate()
    effect("ended")
    return "paid"


@app.task
def look_up() -> None:
    """Take far longer while the downstream is slow."""
    effect("began")
    time.sleep(1.0 if control_file("slow").exists() else 0.02)
    effect("ended")


@app.task
def spin() -> None:
    """Hold the interpreter lock in short turns, and ignore signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    effect("began")
    while True:
        pass


@app.task
def spin_on() -> None:
    """Do the same as `spin`, and continue whatever is raised in it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    effect("began")
    while True:
        with suppress(BaseException):
            while True:
                pass


@app.task
def block_in_c(seconds: int) -> None:
    """Hold the interpreter lock in C code, so that no other Python code of this process runs."""
    effect("began")
    ctypes.PyDLL(None).sleep(seconds)
    effect("ended")


@app.task
def crash(how: str) -> None:
    effect("began")
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "exit 0":
            os._exit(0)
        case "exit 7":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "parent":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        case _:
            raise AssertionError(how)


@app.task
def leave(how: str) -> None:
    effect("began")
    match how:
        case "sys.exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "in a thread":
            thread = threading.Thread(target=sys.exit)
            thread.start()
            thread.join()
        case _:
            raise AssertionError(how)


@app.task
def eat_memory(megabytes: int) -> int:
    limit = 400 << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    effect("began")
    return len(b"x" * (megabytes << 20))


@app.task
def have_children(seconds: int) -> None:
    """Leave one child in the process group, and one in a new session."""
    plain = subprocess.Popen(["sleep", str(seconds)])
    daemon = subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
    effect("began", children=[plain.pid, daemon.pid])
    time.sleep(seconds)


@app.task
def have_grandchildren(seconds: int) -> None:
    """Leave a child in a new session, whose own child is in a third session."""
    script = f"setsid sleep {seconds} & echo $!; sleep {seconds}"
    leader = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    effect("began", children=[leader.pid, int(leader.stdout.readline())])
    time.sleep(seconds)


@app.task
def terminate_children() -> list[int | None]:
    """Start one child by a fork and one as a program, and terminate both."""
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    forked.start()
    program = subprocess.Popen(["sleep", "60"])
    forked.terminate()
    program.terminate()
    forked.join(10)
    return [forked.exitcode, program.wait(10)]


@app.task
def write_garbage() -> None:
    """Write garbage to every socket of the process, including the one to the node."""
    effect("began")
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if str(file.readlink()).startswith("socket:"):
                os.write(int(file.name), b"\0\0\0\3abc")
    time.sleep(60)


@app.task
def catch_soft_limit() -> str:
    try:
        effect("began")
        time.sleep(60)
    except windlass.SoftTimeout:
        return "cleaned up"
    return "slept"


@app.task
async def acatch_soft_limit() -> str:
    try:
        effect("began")
        await asyncio.sleep(60)
    except windlass.SoftTimeout:
        return "cleaned up"
    return "slept"


@app.task
def step() -> None:
    """A task of a graph."""
    effect("step", key=windlass.current().key)


@app.task
def bill(trouble: str) -> None:
    """Write an invoice in one transaction with its completion. The first attempt has a problem."""
    current, first = windlass.current(), first_time()
    with psycopg.connect(os.environ["INVOICES_URL"]) as conn:
        effect("began")
        try:
            with current.transaction(conn):
                conn.execute("INSERT INTO invoice (task) VALUES (%s)", [current.task_id])
                effect("inserted")
                if first and trouble == "zombie":
                    await_gate()
                if first and trouble == "crash before the commit":
                    os.kill(os.getpid(), signal.SIGKILL)
        except windlass.StaleLease:
            effect("refused")
            raise
    if first and trouble == "crash after the commit":
        os.kill(os.getpid(), signal.SIGKILL)


@app.task
def give_back(what: str) -> Any:
    effect("began")
    cycle: list[Any] = []
    cycle.append(cycle)
    return {"object": object(), "nan": float("nan"), "large": "x" * (100 << 20), "cycle": cycle, "set": {1}}[what]


@app.task
def speak(text: str) -> None:
    print("out", text)
    print("err", text, file=sys.stderr)
    logging.getLogger("shop").warning("log %s", text)
    windlass.current().log.info("ours %s", text)


@app.task(retries=0)
def speak_and_wait() -> str:
    """Print, and end when the file `gate` exists."""
    print("before the gate")
    windlass.current().log.info("still there")
    effect("began")
    gate = Path(os.environ["WINDLASS_EFFECTS"]).with_name("gate")
    while not gate.exists():
        time.sleep(0.01)
    print("after the gate")
    return "ended"


@app.task
async def aspeak_and_wait() -> None:
    """Print, and end when the file `gate` exists."""
    print("before the gate")
    gate = Path(os.environ["WINDLASS_EFFECTS"]).with_name("gate")
    while not gate.exists():
        await asyncio.sleep(0.01)


@app.task
def close_stdout() -> None:
    sys.stdout.close()
    os.close(1)
    print("to nobody")


@app.task
def environment() -> list[str]:
    return sorted(os.environ)


@app.task
def wait_for_cancel() -> str:
    effect("began")
    while not windlass.current().cancelled:
        time.sleep(0.01)
    effect("stopped")
    return "left in its own way"


@app.task
def beat(beats: int) -> int:
    effect("began")
    for number in range(beats):
        windlass.current().progress(number / beats, f"{number} of {beats}")
        time.sleep(0.1)
    return beats


@app.task
def raise_it(message: str) -> None:
    effect("began")
    raise ValueError(message)


@app.task
def total(parts: list[int]) -> int:
    effect("total")
    return sum(parts)


@app.task
def enqueue_more(number: int) -> list[str]:
    effect("began")
    return [str(add.enqueue(n).id) for n in range(number)]


@app.task
def grow(megabytes: int) -> int:
    kept.append(b"x" * (megabytes << 20))
    effect("began")
    return len(kept)


kept: list[bytes] = []


@app.task
def start_a_node() -> str:
    try:
        app.worker(app_path="tests.e2e.shop:app").start()
    except windlass.NotAllowed as error:
        return str(error)
    return ""


@app.decider
def by_file(situation: windlass.PoolSituation) -> float:
    """Return the number of workers that the test has written to a file."""
    return float(control_file("workers").read_text())


@app.task
def square(number: int) -> int:
    """Return the square of a number."""
    effect("square", number=number)
    return number * number


@app.task
def add_up(numbers: list[int]) -> int:
    """Return a sum."""
    return sum(numbers)


@app.task
def sum_of_squares(most: int) -> int:
    """Add a step for each number and continue with their results."""
    effect("split", most=most)
    more = windlass.more_steps()
    return more.then(add_up, [more.add(square, number) for number in range(most)])


@app.task
def approve(workflow: str) -> bool:
    """Set the event `approved` of a workflow."""
    return app.events.set(workflow, "approved", {"by": "a handler"})


@app.task
def publish(total: int, approval: dict[str, str]) -> str:
    """Return a text with both."""
    return f"{total} by {approval['by']}"


@app.task
async def meet(others: int) -> int:
    """Return how many tasks run at once in this worker; wait until there are `others`."""
    meeting.append(1)
    while len(meeting) < others:
        await asyncio.sleep(0.01)
    return os.getpid()


meeting: list[int] = []


@app.task
def wait_for_child(depth: int) -> int:
    """Wait for a task of the same handler, which waits for another one."""
    return 0 if depth == 0 else 1 + wait_for_child.enqueue(depth - 1).result()


@app.task
async def await_child(depth: int) -> int:
    """Wait for tasks of both kinds."""
    if depth == 0:
        return len(await length.enqueue("abc") * "x") - 3
    return 1 + await await_child.enqueue(depth - 1)


@app.task(retries=0)
async def block_the_loop() -> int:
    return add.enqueue(1).result()


@app.task(retries=0, timeout="500ms")
async def run_too_long() -> None:
    await asyncio.sleep(60)


@app.task(retries=0)
def inspect_and_change(queue: str) -> dict[str, Any]:
    """Do what a handler may do with tasks, and report what it may not."""
    found = app.tasks.find(queue=queue)
    states = [task.state.value for task in found]
    cancelled, counted = found.cancel(why="not needed"), app.tasks.find(queue=queue).count()
    [first, *_] = app.tasks.find(queue=queue)
    handle = app.handle(first.id)
    retried, errors = handle.retry(), list[str]()
    for call in (app.queues.list, app.pools.list, app.dead.groups, found.purge):
        try:
            call()
        except windlass.NotAllowed as error:
            errors.append(str(error).split(" does not")[0])
    reads = [handle.attempts(), handle.logs(), handle.progress()]
    return {
        "states": states,
        "cancelled": cancelled,
        "counted": counted,
        "retried": retried,
        "reads": reads,
        "errors": errors,
    }
