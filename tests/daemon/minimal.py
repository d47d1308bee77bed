"""A daemon for tests: the real process, with an application that does next to nothing.

Run as a program, it reads its settings from `MINIMAL` (JSON): fields of `DaemonSettings`, and what shall go wrong.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from agent_worker.client.connection import Client, find
from agent_worker.client.discovery import HOME_VARIABLE, READY_VARIABLE, home_directory, read_daemon, signal_daemon
from agent_worker.core.errors import Permanent
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.process.front import Identity
from agent_worker.daemon.process.process import serve
from agent_worker.daemon.process.settings import DaemonSettings

FILE = Path(__file__)
COMMAND = (sys.executable, str(FILE))


class Launched:
    """The daemon as a child of the test."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self._word, told = os.pipe()
        environment = {HOME_VARIABLE: str(home), READY_VARIABLE: str(told), "MINIMAL": json.dumps(settings)}
        self.process = subprocess.Popen(
            COMMAND, env=os.environ | environment, pass_fds=(told,), stderr=subprocess.PIPE, text=True
        )
        os.close(told)

    def word(self) -> Any:
        """What it told who started it, as soon as it does."""
        with os.fdopen(self._word) as reading:
            return json.loads(reading.readline() or "{}")

    def outcome(self) -> tuple[int, str]:
        """Exit code and last words."""
        _, said = self.process.communicate(timeout=100)
        return self.process.returncode, said

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def running(home: Path, **settings: Any) -> Iterator[tuple[Client, Launched]]:
    launched = Launched(home, **settings)
    try:
        assert "ready" in launched.word()
        client = find(home)
        assert client
        yield client, launched
    finally:
        launched.kill()


def end(home: Path) -> None:
    """Of one that `connect` started."""
    if found := read_daemon(home):
        signal_daemon(home, found, signal.SIGKILL)


def asked() -> dict[str, Any]:
    given: dict[str, Any] = json.loads(os.environ.get("MINIMAL", "{}"))
    return given


async def make_app(identity: Identity) -> App:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    match asked().get("fault"):
        case "refuses":
            raise Permanent("the database is from the future", hint="update agent-worker")
        case "raises":
            raise ZeroDivisionError("a bug")
        case "full disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "host-id")
        case "dies":
            os._exit(9)
        case "slow":
            await asyncio.sleep(0.3)

    def allowed(request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {identity.token}"

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def shutdown(request: Request) -> Response:
        if not allowed(request):
            return JSONResponse({"error": {"code": "refused", "message": "who are you?", "hint": ""}}, 401)
        identity.stop()
        return JSONResponse({"stopping": True}, 202)

    async def echo(request: Request) -> Response:
        return JSONResponse({"allowed": allowed(request), "body": await request.json(), "pid": os.getpid()})

    async def ticks(request: Request) -> Response:
        return StreamingResponse(endless(identity), media_type="text/event-stream")

    async def deaf(request: Request) -> Response:
        return StreamingResponse(never_ending(), media_type="text/event-stream")

    async def fail(request: Request) -> Response:
        status = int(request.query_params["status"])
        error = {"code": request.query_params["code"], "message": "no such thing", "hint": "look elsewhere"}
        return JSONResponse({"error": error}, status)

    async def elsewhere(request: Request) -> Response:
        return Response(status_code=302, headers={"Location": "/health"})

    async def print_much(request: Request) -> Response:
        chatter = await asyncio.create_subprocess_exec(
            sys.executable, "-c", f"for _ in range({request.query_params['lines']}): print('x' * 999)", stdout=2
        )
        await chatter.wait()
        return JSONResponse({})

    async def note(request: Request) -> Response:
        logging.getLogger("note").info("%s", (await request.json())["text"])
        logging.getLogger("note").info("%d of %d", "unfitting")
        return JSONResponse({})

    async def block(request: Request) -> Response:
        logging.getLogger("note").info("blocking")
        time.sleep(30)  # noqa: ASYNC251 — this is the fault
        return JSONResponse({})

    async def silent(request: Request) -> Response:
        await identity.stopping.wait()
        return JSONResponse({})

    async def odd(request: Request) -> Response:
        return Response(asked()["answers"], media_type="application/json")

    async def die(request: Request) -> Response:
        os._exit(9)

    routes = (health, shutdown, echo, ticks, deaf, fail, elsewhere, print_much, note, block, silent, die)
    ways = [Route(f"/{route.__name__}", route, methods=["GET", "POST"]) for route in routes]
    if "answers" in asked():  # as one of another version may
        ways.append(Route("/{all:path}", odd, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]))
    return Starlette(
        routes=ways,
        lifespan=lambda _: leaves_a_trace(identity.home),
    )


@asynccontextmanager
async def leaves_a_trace(home: Path) -> AsyncIterator[None]:
    yield
    (home / "ended-properly").touch()


async def endless(identity: Identity) -> AsyncIterator[str]:
    number = 0
    while not identity.stopping.is_set():
        yield f": comment\nid: {number}\nevent: tick\ndata: first\ndata: größer\n\n"
        number += 1
        await asyncio.wait([asyncio.create_task(identity.stopping.wait())], timeout=0.05)
    yield "event: goodbye\ndata: {}\n\n"


async def never_ending() -> AsyncIterator[str]:
    while True:
        yield "data: still here\n\n"
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    fields = {"home": home_directory(), "port": 0} | {k: v for k, v in asked().items() if k not in ("fault", "answers")}
    sys.exit(serve(make_app, DaemonSettings(**fields)))
