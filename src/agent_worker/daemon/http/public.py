"""What others may reach of this machine: a listener of its own that serves answer links and webhooks, and nothing else.

There is one only where the person set `public_url`. No token means anything here; a link or a signature is judged by
its door. It has a server, a limit of connections and a guard of its own, so a crowd of strangers shuts nobody out of
the daemon. It listens on this machine; a tunnel or a proxy of the person's leads to it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from urllib.parse import urlsplit

from agent_worker.client.discovery import authority
from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.daemon.http.asgi import App, Message, Receive, Send
from agent_worker.daemon.http.connection import Capacity
from agent_worker.daemon.http.request_guard import (
    ClientGone,
    Refusal,
    RequestHeaders,
    refuse,
    replayed,
    sending_safely,
    whole_body,
)
from agent_worker.daemon.http.server import DaemonServer, configured

LARGEST_HOOK = 1024 * 1024
LARGEST_ANSWER = 64 * 1024
_ANSWER_PATHS = {"/answer": "GET", "/answer/item": "POST", "/answer/answer.js": "GET", "/answer/answer.css": "GET"}
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_HERE = "127.0.0.1"
_CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    b"frame-ancestors 'none'"
)

log = logging.getLogger(__name__)


class PublicServer(DaemonServer):
    """A server that sleeps until it is told to end; the daemon's own wakes up every moment to look at its clock."""

    def __init__(self, app: App) -> None:
        super().__init__(configured(app, lifespan="off"), lambda: None, Capacity(strangers=64, connections=64))
        self._ends = asyncio.Event()

    async def main_loop(self) -> None:
        await self._ends.wait()

    def end(self) -> None:
        self._ends.set()


class PublicListener:
    """Listens from when it is made until `close`."""

    def __init__(self, app: App, url: str, port: int) -> None:
        self._server = PublicServer(PublicGuard(app, url))
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HERE, port))
            listener.listen()
        except OSError as error:
            listener.close()
            told = f"cannot listen for webhooks and answers for {url} on {authority(_HERE, port)}: {error.strerror}"
            raise Refused(told, hint="choose another public_port in settings.yaml of the home") from None
        log.info("listening for webhooks and answers for %s on %s", url, authority(*listener.getsockname()))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def close(self) -> None:
        self._server.end()
        await self._serving


@dataclass(frozen=True, slots=True)
class PublicGuard:
    """Judges each request before a door sees it: host, path, web page it comes from, form, size."""

    app: App
    url: str  #: scheme and host, as people and programs elsewhere write them

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        guarded = sending_safely(_referring(send, scope["path"]), _CSP)
        try:
            limit = self._judge(scope)
            body = await whole_body(scope, receive, limit=limit)
        except Refusal as refusal:
            return await refuse(refusal, receive, guarded)
        except ClientGone:
            return
        scope["caller"] = None
        await self.app(scope, replayed(body, receive), guarded)

    def _judge(self, scope: Message) -> int:
        """Judge a request by its head: raises Refusal, or returns how large the body may be."""
        headers, path, method = RequestHeaders(scope), scope["path"], scope["method"]
        if headers.only("host") != urlsplit(self.url).netloc:
            raise Refusal(421, "misdirected", "this is not the host you asked for")
        if headers.has("upgrade"):
            raise Refusal(400, "bad_request", "only HTTP/1.1 is supported here")
        if method == "POST" and path.startswith("/hooks/"):
            if headers.has("origin") or headers.has("sec-fetch-site"):
                raise Refusal(403, "forbidden", "no web page sends webhooks")
            _check_kind(headers, _JSON)
            return LARGEST_HOOK
        if method != _ANSWER_PATHS.get(path):
            raise Refusal(404, "not_found", "there is nothing here")
        if method == "POST":
            headers.check_page(self.url)
            _check_kind(headers, _FORM)
        return LARGEST_ANSWER


def _check_kind(headers: RequestHeaders, kind: str) -> None:
    if headers.media_type != kind:
        raise Refusal(415, "unsupported", f"send {kind}")


def _referring(send: Send, path: str) -> Send:
    """Let the pages of answers name their origin to ourselves: else a browser sends `Origin: null` with the form."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start" and path in _ANSWER_PATHS:
            headers = [(name, value) for name, value in message["headers"] if name != b"referrer-policy"]
            message["headers"] = [*headers, (b"referrer-policy", b"same-origin")]
        await send(message)

    return sent
