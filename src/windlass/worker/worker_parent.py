"""The worker parent: it imports the app once, and forks workers that already have it.

It is a program with one thread: `python -m windlass.worker.worker_parent SOCKET IMPORTS`. It reports to the node
what it found in the app, or why the import failed. After that it only forks, kills and reports exits. When the node's
socket closes, it kills every worker's process group and exits, so nothing outlives a killed node. If the worker parent
dies, the kernel kills the workers.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from windlass.client.app import App, forbid_stores
from windlass.clock import SystemClock, monotonic
from windlass.worker.isolation import set_dumpable
from windlass.worker.log_format import LogOptions
from windlass.worker.parent_client import Imports
from windlass.worker.wire import (
    MAX_FAILURE,
    EndStray,
    Fork,
    Frames,
    Kill,
    Message,
    ParentFailed,
    ParentReady,
    Strays,
    Stuck,
    ToParent,
    WorkerExited,
    WorkerFiles,
    WorkerNotStarted,
    WorkerStarted,
    encode_frame,
)
from windlass.worker.worker_main import run_worker

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STRAY_SECONDS = 1.0
"""Seconds between two searches for strays."""
_END_SECONDS = 1.0
"""How long a killed process may take to end. After that it is stuck, and nothing waits for it any more.

It is in uninterruptible sleep, as on a disk or a network file system that does not answer, or a debugger holds it."""
_POLL_SECONDS = 0.005
_OOM_SCORE = 300
"""Added to the out-of-memory score of workers, so that the kernel kills them before other processes."""


IGNORED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that the worker parent and the workers ignore. A terminal or a service manager may send them to every process
of a service; then the node drains. Programs that handlers start get them, because `exec` resets signal handlers."""


def main(descriptor: str, encoded: str) -> int:
    """Run the worker parent for the node at the other end of this socket."""
    imports = msgspec.json.decode(encoded, type=Imports)
    with socket.socket(fileno=int(descriptor)) as node:
        started = monotonic()
        set_dumpable(False)  # A handler must not take over the socket to the node.
        _ignore_signals()
        try:
            forbid_stores("the app is being imported: enqueue from a function, not from the module itself")
            if imports.path:
                sys.path[:] = imports.path
            app = load_app(imports.app)
            for module in imports.modules:
                importlib.import_module(module)
            _check_threads()
            seconds, own_url = monotonic() - started, app.app_store.own_url
            ready = ParentReady(app.manifest(), seconds, own_url, app.max_result_bytes)
        except BaseException as error:  # noqa: BLE001 - the node reports whatever the app raises
            _send(node, ParentFailed(describe_import_failure(imports.app, error)[:MAX_FAILURE]))
            return 1
        _send(node, ready)
        WorkerParent(node, app, imports.log).run()
    return 0


def _check_threads() -> None:
    """Refuse threads that importing the app has started: a forked worker would not have them."""
    others = _other_threads()
    if others:
        raise RuntimeError(f"importing the app started threads ({', '.join(others)}); {_WHERE_TO_START}")


def _other_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


_WHERE_TO_START = "start them in a function decorated with @app.on_worker_start"


def load_app(target: str) -> App:
    """Import and return the app that `module:name` names. The name defaults to `app`."""
    module, _, name = target.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - compared with text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    found: object = importlib.import_module(module)
    for part in (name or "app").split("."):
        found = getattr(found, part)
    if not isinstance(found, App):
        raise TypeError(f"{target} is a {type(found).__name__}. Name the windlass.App of your program, as in shop:app.")
    return found


class WorkerParent:
    """Forks, kills and reaps workers for the node."""

    def __init__(self, node: socket.socket, app: App, log: LogOptions) -> None:
        self._node = node
        self._app = app
        self._log = log
        self._workers: dict[int, int] = {}
        self._spared = _children()
        """Children that must not be killed: started by importing the app, or owned by another user now."""
        self._strays: set[int] = set()
        self._killed: dict[int, float] = {}
        """When each worker was killed that has not ended yet."""
        self._stuck: set[int] = set()
        """Killed children that do not end. They are reaped if they do."""
        self._stuck_reported: set[int] = set()
        self._next_search = 0.0
        self._frames: Frames[ToParent] = Frames(ToParent)
        self._descriptors: deque[int] = deque()
        self._selector = selectors.DefaultSelector()
        self._child_exits, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        _ignore_signals()  # Again, because the app may have changed them.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Serve until the node is gone."""
        gc.collect()
        gc.freeze()  # The collector skips these objects, so their memory stays shared with the workers.
        with self._selector as selector:
            selector.register(self._node, selectors.EVENT_READ)
            selector.register(self._child_exits, selectors.EVENT_READ)
            served = True
            while served:
                for key, _ in selector.select(_STRAY_SECONDS):
                    served = self._serve(key.fd) and served
                if served:
                    self._report_strays()
                    self._report_stuck()
        for pid in self._workers.values():
            _kill_group(pid)
        self._await_end({*self._workers.values()})  # Their orphans become our children only once they are gone.
        self._workers.clear()
        self._spared.clear()  # Nothing of the app may outlive this process.
        self._kill_all_orphans()

    def _serve(self, ready: int) -> bool:
        """Handle what has arrived. Return False if the node is gone."""
        if ready == self._child_exits:
            os.read(self._child_exits, 4_096)
            self._reap()
            return True
        data = self._receive()
        for message in self._frames.feed(data):
            match message:
                case Fork():
                    self._fork(message)
                case Kill(worker):
                    if worker in self._workers:
                        _kill_group(self._workers[worker])
                        self._killed.setdefault(worker, monotonic())
                case EndStray(pid):
                    if pid in self._orphans():
                        self._kill_orphans({pid})
        return bool(data) and self._frames.broken is None

    def _receive(self) -> bytes:
        room = socket.CMSG_SPACE(64 * array.array("i").itemsize)
        try:
            data, extra, _, _ = self._node.recvmsg(65_536, room)
        except ConnectionResetError:
            return b""
        for level, kind, payload in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(array.array("i", payload))
        return data

    def _fork(self, request: Fork) -> None:
        files = WorkerFiles(*(self._descriptors.popleft() for _ in WorkerFiles._fields))
        with _closing(files):
            others = _other_threads()
            if others:
                reason = f"the app has started threads ({', '.join(others)}); {_WHERE_TO_START}"
                self._send(WorkerNotStarted(request.worker, reason))
                return
            try:
                pid = os.fork()
            except OSError as error:
                self._send(WorkerNotStarted(request.worker, f"the system could not fork: {error}"))
                return
            if pid == 0:
                self._run_worker(files, request)
        self._workers[request.worker] = pid
        with suppress(OSError):  # The child does it too; either may be first.
            os.setpgid(pid, pid)
        self._send(WorkerStarted(request.worker, pid))

    def _run_worker(self, files: WorkerFiles, request: Fork) -> None:
        """Set up the child process, run assignments, and exit. It never returns."""
        status = 1
        try:
            parent = os.getppid()
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _restore_signals()
            self._close_own_files()
            set_dumpable(True)
            with suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
            status = run_worker(self._app, files, request, self._log)
        except BaseException:  # noqa: BLE001 - the process exits, so print whatever was raised
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _close_own_files(self) -> None:
        """Close what a forked worker has of this process, so that no handler can send messages or wake it for ever."""
        self._node.close()
        self._selector.close()
        for descriptor in (self._child_exits, self._wake):
            os.close(descriptor)

    def _reap(self) -> None:
        """Reap and report dead workers. Their process groups are killed first, while their ids cannot be reused."""
        by_pid = {pid: worker for worker, pid in self._workers.items()}
        while (dead := _next_dead()) is not None:
            worker = by_pid.get(dead)
            if worker is not None:
                _kill_group(dead)
            _, status = os.waitpid(dead, 0)
            self._spared.discard(dead)
            self._stuck.discard(dead)
            if worker is not None:
                del self._workers[worker]
                self._killed.pop(worker, None)
                self._kill_all_orphans()
                self._send(WorkerExited(worker, os.waitstatus_to_exitcode(status)))

    def _report_strays(self) -> None:
        """Report processes that have lost their parents to the node, once each."""
        if monotonic() < self._next_search:
            return
        self._next_search = monotonic() + _STRAY_SECONDS
        strays = self._orphans()
        if new := strays - self._strays:
            self._send(Strays(sorted(new)))
        self._strays = strays

    def _report_stuck(self) -> None:
        """Report the killed processes that do not end to the node, when there are others than before."""
        late = monotonic() - _END_SECONDS
        self._stuck |= {self._workers[worker] for worker, killed_at in self._killed.items() if killed_at < late}
        if self._stuck != self._stuck_reported:
            self._stuck_reported = {*self._stuck}
            self._send(Stuck(sorted(self._stuck)))

    def _kill_all_orphans(self) -> None:
        """Kill what workers left behind outside their process groups, and in turn what those processes leave behind.

        This process is their subreaper, so it becomes the parent of orphans.
        """
        while orphans := self._orphans():
            self._kill_orphans(orphans)

    def _kill_orphans(self, orphans: set[int]) -> None:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:  # It runs as another user now, for example by sudo.
                self._spared.add(pid)
        self._await_end(orphans - self._spared)

    def _await_end(self, killed: set[int]) -> None:
        """Reap killed processes. Those that do not end in time are stuck."""
        give_up_at = monotonic() + _END_SECONDS
        left = {pid for pid in killed - self._stuck if not _reap_one(pid)}
        while left and monotonic() < give_up_at:
            SystemClock().sleep(_POLL_SECONDS)
            left = {pid for pid in left if not _reap_one(pid)}
        self._stuck |= left

    def _orphans(self) -> set[int]:
        """Return the children that are no workers, spared or stuck. Only we reap them, so their ids stay valid."""
        return _children() - {*self._workers.values()} - self._spared - self._stuck

    def _send(self, message: Message) -> None:
        _send(self._node, message)


@contextmanager
def _closing(descriptors: Iterable[int]) -> Generator[None]:
    """Close the descriptors at the end of the block."""
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _send(node: socket.socket, message: Message) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # The next read finds that the node is gone.
        node.sendall(encode_frame(message))


def _ignore_signals() -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, lambda _number, _frame: None)


def _restore_signals() -> None:
    """Let processes that handlers fork receive these signals. A signal that arrives during the fork is delayed."""

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)

    def restore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        unblock()

    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)


def _children() -> set[int]:
    try:
        return {*map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())}
    except OSError:
        return set()


def _next_dead() -> int | None:
    """Return the id of a child that has exited and was not reaped; None if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def _reap_one(pid: int) -> bool:
    """Reap a child. Return False if it has not ended yet."""
    return os.waitpid(pid, os.WNOHANG)[0] != 0


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # It may not lead its process group yet.
        os.kill(pid, signal.SIGKILL)


def describe_import_failure(target: str, error: BaseException) -> str:
    """Return why the app could not be imported, with a traceback of the app's own frames."""
    frames = error.__traceback__
    while frames is not None and _is_machinery(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    shown = "".join(traceback.format_exception(type(error), error, frames))
    return f"{target} could not be imported: {type(error).__name__}: {error}\n{shown}"


def _is_machinery(file: str) -> bool:
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
