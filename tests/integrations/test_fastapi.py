"""The FastAPI program of the guide with a real uvicorn, a real worker and PostgreSQL; and the middleware in detail."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import psutil
import psycopg
import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from tests.support.processes import until
from tests.support.tokens import create_token
from windlass import App, NotAllowed, State
from windlass.errors import StoreError
from windlass.integrations.fastapi import (
    Background,
    BackgroundDep,
    Enqueue,
    WindlassMiddleware,
    background,
    enqueue_with,
    get_app,
    running,
)
from windlass.operations.caller import Scope
from windlass.testing import assert_enqueued, memory_store

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "fastapi.md").read_text()
BLOCKS = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    for path, text in BLOCKS:
        with (tmp_path / path).open("a") as file:
            file.write(f"\n{text}")
    return tmp_path


class Uvicorn:
    """The program of the guide on a free port."""

    def __init__(self, folder: Path, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.log = folder / "uvicorn.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "shop.main:api", "--port", str(port)],
                cwd=folder,
                env={**os.environ, "DATABASE_URL": url},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def __enter__(self) -> Uvicorn:
        # It opens its port after the startup of the program, and says so afterwards.
        until(lambda: "Uvicorn running" in self.log.read_text() or self.process.poll() is not None, "it has started")
        assert self.process.poll() is None, self.log.read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
def test_the_program_of_the_guide_serves_runs_and_stops(project: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE orders (item text UNIQUE DEFERRABLE INITIALLY DEFERRED)")  # checked by the commit
    app = App(postgres_url)
    with Uvicorn(project, postgres_url) as server:
        signed_up = server.client.post("/signup", params={"address": "a@b.c"})
        ordered = server.client.post("/orders", params={"item": "lamp"})
        refused = server.client.post("/orders", params={"item": "lamp"})
        results = [app.handle(answer.json()["task"]).result(30) for answer in (signed_up, ordered)]

        assert results == ["welcome, a@b.c", "welcome, lamp"]
        assert refused.status_code == 500
        token = create_token(app.store, "reader", [Scope.READ])
        path = "/windlass/api/v1/tasks"
        assert server.client.get(path).status_code == 401
        listed = server.client.get(path, headers={"Authorization": f"Bearer {token}", "Host": "shop.example"})
        assert len(listed.json()["tasks"]) == 2, "the refused order has left no task"
        assert "/ops/login" in str(server.client.get("/ops/", follow_redirects=True).url)

        children = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)
        assert "Application shutdown complete" in server.log.read_text()
        assert not psutil.wait_procs(children, 10)[1], "no worker outlives the program"
    app.close()


@pytest.mark.slow
def test_the_tests_and_the_other_files_of_the_guide_run(project: Path) -> None:
    (project / "shop" / "test_own.py").write_text("def test_own():\n    import shop.own_lifespan\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "shop"],
        cwd=project,
        env={**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout


# The middleware


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory:")
    app.task(name="mail")(_mail)
    with memory_store(app):
        yield app


def _mail(to: str) -> None: ...


def call(api: Any, path: str) -> httpx.Response:
    """Send one request, without a server."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return await client.post(path)

    return asyncio.run(send())


def program(app: App) -> FastAPI:
    api = FastAPI()
    api.add_middleware(WindlassMiddleware, app)
    mail = app.handlers["mail"]

    @api.post("/many")
    async def many(added: BackgroundDep, same: Annotated[Background, Depends(background)]) -> list[str]:
        assert added is same
        return [str(added.add(mail, to=to).id) for to in "ab"] + [str(added.add(mail.using(key="k"), to="c").id)]

    @api.post("/raises")
    def raises(added: BackgroundDep) -> None:
        added.add(mail, to="a")
        raise HTTPException(409)

    @api.post("/fails")
    async def fails(added: BackgroundDep) -> JSONResponse:
        added.add(mail, to="a")
        return JSONResponse({}, 500)

    @api.post("/wrong")
    async def wrong(added: BackgroundDep) -> None:
        with pytest.raises(TypeError):
            added.add(mail, nobody="a")
        with pytest.raises(NotAllowed, match="conn="):
            added.add(mail.using(conn=object()), to="a")

    @api.post("/streams")
    async def streams(added: BackgroundDep) -> StreamingResponse:
        added.add(mail, to="a")

        async def body() -> Any:
            with pytest.raises(NotAllowed, match="response has started"):
                added.add(mail, to="late")
            yield "text"

        return StreamingResponse(body())

    return api


def test_calls_are_enqueued_with_a_response_that_is_not_an_error(app: App) -> None:
    api = program(app)

    answer = call(api, "/many")
    stored = assert_enqueued(app, app.handlers["mail"], times=3)
    assert {str(task.id) for task in stored} == set(answer.json())
    assert [call(api, path).status_code for path in ("/raises", "/fails", "/wrong")] == [409, 500, 200]
    assert_enqueued(app, app.handlers["mail"], times=3)
    assert call(api, "/streams").text == "text"
    assert_enqueued(app, app.handlers["mail"], times=4)


def test_a_store_that_fails_is_an_error_for_the_client(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(app, "aenqueue_many", refuse)

    assert call(program(app), "/many").status_code == 500


def test_enqueue_uses_the_connection_of_the_endpoint() -> None:
    async def get_conn() -> Any:
        yield object()

    conn_dep: Any = Annotated[object, Depends(get_conn, scope="function")]
    api = FastAPI()

    async def same(conn: Any, enqueue: Any, other: Any) -> list[bool]:
        return [enqueue.conn is conn, other.conn is conn]

    same.__annotations__.update(
        conn=conn_dep,
        enqueue=Annotated[Enqueue, Depends(enqueue_with(conn_dep))],
        other=Annotated[Enqueue, Depends(enqueue_with(get_conn))],
    )
    api.post("/")(same)

    assert call(api, "/").json() == [True, False], "with another scope it is another connection"


def test_starlette_uses_the_same_without_dependencies(app: App) -> None:
    async def sign_up(request: Request) -> PlainTextResponse:
        assert get_app(request) is app
        return PlainTextResponse(str(background(request).add(app.handlers["mail"], to="a").id))

    plain = Starlette(routes=[Route("/", sign_up, methods=["POST"])])
    guarded = Starlette(routes=plain.routes)
    guarded.add_middleware(WindlassMiddleware, app)

    id = call(guarded, "/").text
    assert app.handle(id).state is State.RUNNABLE
    assert call(plain, "/").status_code == 500, "without the middleware there is an error, not a lost task"


def test_running_opens_and_closes_the_store(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'tasks.db'}")

    async def main() -> None:
        async with running(app) as node:
            assert node is None
            assert (tmp_path / "tasks.db").exists()
            first = app.store
        assert app.store is not first
        app.close()

    asyncio.run(main())
