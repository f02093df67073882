"""A node hides the URL of its store from other processes of its user, and runs workers as another one if asked."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from typing import Any

import pytest

from windlass.config import InvalidSettings
from windlass.worker import isolation
from windlass.worker.isolation import find_user

URL = "postgresql://windlass:sesame-open@db.internal/tasks"
SCRIPT = """
import ctypes, json, os, subprocess, sys
from windlass.worker.isolation import protect_process, set_dumpable

def read(name):
    "Return what another process of the same user reads about this one."
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            found = open(f"/proc/{os.getppid()}/{name}", "rb").read(65536).decode(errors="replace")
        except OSError as error:
            found = type(error).__name__
        os.write(writer, found.encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 1 << 16).decode()

if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
set_dumpable(True)
before = {name: read(name) for name in ("cmdline", "environ")}
protect_process(sys.argv[2])
after = {name: read(name) for name in ("cmdline", "environ", "mem", "maps")}
set_dumpable(True)
shown = read("environ")
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
own = [os.environ["WINDLASS_URL"], os.environ["PGPASSWORD"], getenv(b"PGPASSWORD").decode()]
child = subprocess.run(["/bin/sh", "-c", "echo $WINDLASS_URL"], capture_output=True, text=True).stdout.strip()
print(json.dumps({"before": before, "after": after, "shown": shown, "own": own, "child": child}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What others see of a process before and after it is protected, and what it still has itself."""
    environment = {**os.environ, "WINDLASS_URL": URL, "PGPASSWORD": "sesame-open", "OTHER": f"x {URL} y", "PLAIN": "1"}
    words = [sys.executable, "-c", SCRIPT, "--store", URL, "last"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_others_could_read_the_url_before(found: dict[str, Any]) -> None:
    assert URL in found["before"]["cmdline"]
    assert URL in found["before"]["environ"]


def test_others_can_read_neither_memory_nor_environment(found: dict[str, Any]) -> None:
    assert {found["after"][name] for name in ("environ", "mem", "maps")} == {"PermissionError"}


def test_the_command_line_loses_the_url_and_nothing_else(found: dict[str, Any]) -> None:
    before, after = (found[time]["cmdline"].split("\0") for time in ("before", "after"))

    assert "sesame" not in found["after"]["cmdline"]
    assert [word for word in before if word != URL] == [word for word in after if word != "*" * len(URL)]


def test_the_environment_that_the_kernel_shows_loses_the_url(found: dict[str, Any]) -> None:
    assert "sesame" not in found["shown"]
    assert "PLAIN=1\0" in found["shown"]


def test_the_process_and_its_children_keep_their_environment(found: dict[str, Any]) -> None:
    assert found["own"] == [URL, "sesame-open", "sesame-open"]
    assert found["child"] == URL


def test_a_user_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="worker_user='nobody-at-all': there is no such user"):
        find_user("nobody-at-all")


def test_only_root_can_run_workers_as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 4_711)

    with pytest.raises(InvalidSettings, match="only root can run workers as another user"):
        find_user("nobody")


def test_workers_do_not_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 0)

    with pytest.raises(InvalidSettings, match="is root"):
        find_user("root")


def test_a_user_has_its_groups_and_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 0)
    nobody = pwd.getpwnam("nobody")

    user = find_user("nobody")

    assert (user.uid, user.gid) == (nobody.pw_uid, nobody.pw_gid)
    assert nobody.pw_gid in user.groups
    assert user.environment == {"HOME": nobody.pw_dir, "USER": "nobody", "LOGNAME": "nobody"}
