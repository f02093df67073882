"""`--reload`: run a command in a child process and restart it when the code of the app changes. For development.

The parent only watches files, so it never runs code of the app. At a change the child claims nothing more; what still
runs after a short time is stopped and released, to run again with the new code. If the new code cannot be imported, no
child runs until the next change: old code is never served silently.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click

from windlass.cli.logs import log_to_stderr
from windlass.clock import monotonic
from windlass.distribution import install_hint
from windlass.worker.logs import logger

PARENT_VARIABLE = "WINDLASS_RELOAD_PARENT"
"""Set for the child: the process id of the parent."""
QUIET_MILLISECONDS = 200
"""A restart waits until no file has changed for this long, so that saving many files is one restart."""
FINISH_SECONDS = 2.0
"""How long running tasks may continue after a change."""
STOP_SECONDS = 10.0
"""After this time, a child that does not end is killed."""

_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)
_STOPPING = (signal.SIGTERM, signal.SIGINT)


def is_reload_child() -> bool:
    """Return True in the child of a reloading command, which then ends with its parent.

    The variable is removed, so that no program that the child starts mistakes itself for the child.
    """
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None:
        return False
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit(0)
    return True


def run_reloading(folders: Iterable[Path], settings_file: Path) -> int:
    """Run the command of this process in a child, again after every change. Return the exit status of the last one."""
    try:
        import watchfiles  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        raise click.ClickException(f"--reload needs watchfiles: {install_hint('reload')}") from error
    log_to_stderr([logger], logging.INFO)
    watcher = Watcher(outermost(folders), settings_file.resolve())
    return Reloader([sys.executable, *sys.orig_argv[1:]], watcher).run()


def find_app_folder(app: str | None) -> list[Path]:
    """Return the folder that contains the top-level module of an app such as `shop.tasks:app`, if it can be found."""
    module = (app or "").partition(":")[0].partition(".")[0]
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module) if module else None
        if spec is not None and spec.origin is not None:
            return [Path(spec.origin).parent]
    return []


class Watcher:
    """Watches folders in a thread for changes of Python files and of the settings file."""

    def __init__(self, folders: Sequence[Path], settings_file: Path) -> None:
        self.folders = folders
        self.failure: OSError | None = None
        self._settings_file = settings_file
        self._changed = threading.Condition()
        self._files: set[str] = set()
        self._started = threading.Event()

    def start(self) -> None:
        """Start to watch. A change after this call is not missed."""
        threading.Thread(target=self._watch, name="windlass-reload", daemon=True).start()
        self._started.wait(STOP_SECONDS)

    def wait(self, seconds: float) -> list[str]:
        """Return the files that have changed since the last call; wait for the first one at most this long."""
        with self._changed:
            self._changed.wait_for(lambda: self._files or self.failure, seconds)
            files, self._files = sorted(self._files), set()
        if self.failure is not None:
            raise click.ClickException(f"--reload cannot watch files: {self.failure}")
        return files

    def _watch(self) -> None:
        import watchfiles

        settings_folder = self._settings_file.parent
        paths = {*self.folders, *([settings_folder] if settings_folder.is_dir() else [])}
        found = watchfiles.watch(
            *paths,
            watch_filter=self._is_relevant,
            step=QUIET_MILLISECONDS,
            rust_timeout=QUIET_MILLISECONDS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        try:
            for changes in found:
                self._started.set()  # It yields first when it watches, for lack of changes.
                with self._changed:
                    self._files |= {path for _, path in changes}
                    self._changed.notify()
        except OSError as error:  # Such as the limit of watched folders
            with self._changed:
                self.failure = error
                self._changed.notify()
        finally:
            self._started.set()

    def _is_relevant(self, _change: object, path: str) -> bool:
        from watchfiles import DefaultFilter

        found = Path(path)
        if found == self._settings_file:
            return True
        inside = next((folder for folder in self.folders if found.is_relative_to(folder)), None)
        if found.suffix != ".py" or inside is None:
            return False
        return not {*DefaultFilter.ignore_dirs, "site-packages", "venv"}.intersection(found.relative_to(inside).parts)


class Reloader:
    """Runs a command, and again after every change."""

    def __init__(self, command: Sequence[str], watcher: Watcher) -> None:
        self._command = command
        self._watcher = watcher
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self) -> int:
        """Run until a signal stops it, or until the child ends without an error by itself."""
        self._watcher.start()
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        where = ", ".join(map(str, self._watcher.folders))
        _log("ReloadMode", f"Reload mode, for development only: Python files in {where} are watched.")
        status = 0
        while not self._stopped:
            status = self._run_once()
            if self._stopped or status == 0:
                break
            if status > 0:
                _log("ReloadWaiting", f"The command ended with status {status}. Waiting for a change.", status=status)
                self._await_change()
        return max(status, 0)

    def _run_once(self) -> int:
        """Run the child until it ends, or until a change, and return its status; -1 after a change."""
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        # A .pyc file is valid for a second and a size, so it could be that of the previous change.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self._child = child = subprocess.Popen(
            self._command,
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in the terminal is for the parent, which forwards it.
        )
        try:
            while (status := child.poll()) is None:
                if not self._stopped and self._await_change(_POLL_SECONDS):
                    self._stop(child)
                    return -1
                if self._stopped:
                    return _exit_status(child.wait())
            return _exit_status(status)
        except BaseException:
            child.kill()
            raise

    def _await_change(self, seconds: float | None = None) -> bool:
        """Wait for a change, at most this long, and log it."""
        while not self._stopped:
            files = self._watcher.wait(_POLL_SECONDS if seconds is None else seconds)
            if files:
                names = ", ".join(_relative(file) for file in files[:3])
                more = f" and {len(files) - 3} more" if len(files) > 3 else ""
                _log("Reloading", f"Changed: {names}{more}. Restarting.", files=files)
                return True
            if seconds is not None:
                break
        return False

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        """Drain the child, and after a short time make it stop and release what runs."""
        begun = monotonic()
        child.send_signal(signal.SIGTERM)
        pause = FINISH_SECONDS
        while monotonic() < begun + STOP_SECONDS:
            with suppress(subprocess.TimeoutExpired):
                child.wait(pause)
                return
            child.send_signal(signal.SIGTERM)
            pause = _POLL_SECONDS * 2
        child.kill()
        child.wait()

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        self._stopped = self._stopped or number in _STOPPING
        if self._child is not None:
            self._child.send_signal(number)


def outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders without those inside another one, in order.

    The root of the file system is left out if there is another one: a service manager or a container may start there.
    """
    found = list(dict.fromkeys(folder.resolve() for folder in folders))
    found = [folder for folder in found if folder.parent != folder] or found
    return [folder for folder in found if not any(other in folder.parents for other in found)]


def _exit_status(status: int) -> int:
    """Return the status of a process as a shell shows it."""
    return status if status >= 0 else 128 - status


def _relative(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _log(event: str, text: str, **fields: Any) -> None:
    logger.info("%s", text, extra={"fields": {"event": event, **fields}})
