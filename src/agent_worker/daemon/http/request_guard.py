"""Who may: every request is judged here before anything else sees it, in a fixed order, the cheapest test first.

Host, Origin, Sec-Fetch-Site, form of the request, token, scope, size. There are no cookies, no CORS, no exception for
this machine. An identity is a token and nothing else: not a header, not a name in the URL. What passes arrives whole,
with `scope["caller"]` set; what leaves carries headers that keep a browser from making anything of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from urllib.parse import parse_qsl

from agent_worker.backends.programs.program import MODEL_PATH, TOOLS_PATH
from agent_worker.client.discovery import authority
from agent_worker.core.events import Bus, Ended, Retrying, RunEvent
from agent_worker.core.later import dataclass
from agent_worker.daemon.http.asgi import App, Message, Receive, Send
from agent_worker.tools.tool import RunIdentity
from agent_worker.work.door_tokens import DoorToken, DoorTokens

LARGEST_BODY = 4 * 1024 * 1024
LARGEST_MODEL_BODY = 64 * 1024 * 1024  #: of a program's request to its model, which may hold pictures
KEY_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key")  #: in which programs send the key of a model
DOOR_PATHS = {
    "openai": "/v1/",
    "metrics": "/metrics",
}  #: door → what all paths begin with that its tokens open, and no other token does
_LARGEST_STRANGERS_BODY = 4 * 1024
_BODY_PATIENCE = 10.0  #: seconds for a whole body
_DRAIN_PATIENCE = 1.0  #: what a refused client that is still sending gets, so that it can read why
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_SECRET_NAMES = frozenset({"token", "access_token"})

CSP_OF_DATA = b"default-src 'none'; frame-ancestors 'none'; sandbox"
CSP_OF_PAGES = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types agent-worker"
)
#: What only a file of ours says of itself: it never changes under its name, and there is no secret in it.
LASTING = "private, max-age=86400, immutable"
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admin:
    """The caller is the person: it has the token of the daemon."""


Caller = Admin | RunIdentity | DoorToken


class Tokens:
    """What each token stands for. Only digests are kept, apart from the daemon's own."""

    def __init__(self, admin: str) -> None:
        self._admin = admin.encode()
        self._issued: dict[bytes, Caller] = {}
        self.of_doors = DoorTokens()  #: those that last
        self.now: Callable[[], int] = lambda: 0  #: microseconds

    def issue(self, caller: Caller) -> str:
        """A new token: for one run of an agent, or for a page that the person opened."""
        token = secrets.token_urlsafe(32)
        self.admit(_digest(token.encode()), caller)
        return token

    def admit(self, digest: bytes, caller: Caller) -> None:
        """Let in whoever has the token of this SHA-256."""
        self._issued[digest] = caller

    def end(self, digest: bytes) -> None:
        self._issued.pop(digest, None)

    def follow(self, bus: Bus) -> Callable[[], None]:
        """From now on forget the token of a run that ends, or is tried again; the returned function ends that."""
        return bus.listen(self._hear, Ended, Retrying)

    def _hear(self, event: RunEvent) -> None:
        self.end_run(event.run)

    def end_run(self, run: str) -> None:
        """End a run's tokens: they mean nothing from now on."""
        of_run = [key for key, caller in self._issued.items() if isinstance(caller, RunIdentity) and caller.run == run]
        for key in of_run:
            del self._issued[key]

    def caller(self, token: bytes) -> Caller | None:
        if hmac.compare_digest(_digest(token), _digest(self._admin)):
            return Admin()
        digest = _digest(token)
        # Found by its digest: its time tells nothing about the token.
        return self._issued.get(digest) or self.of_doors.of(digest, now=self.now())


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, "hint": hint}


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """ASGI around the application. `strangers` are the paths that need no token, each with its methods."""

    app: App
    tokens: Tokens
    host: str
    port: int
    strangers: Mapping[str, Collection[str]] = field(default_factory=lambda: {"/health": {"GET"}})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return  # the server speaks nothing else
        guarded = sending_safely(send)
        try:
            caller = self._judge(scope)
            if caller is not None:
                _trust_connection(scope)
            body = await whole_body(scope, receive, limit=_limit(caller, scope["path"]))
        except Refusal as refusal:
            return await refuse(refusal, receive, guarded)
        except ClientGone:
            return
        scope["caller"] = caller
        await self.app(scope, replayed(body, receive), guarded)

    def _judge(self, scope: Message) -> Caller | None:
        headers = RequestHeaders(scope)
        self._check_browser(headers)
        self._check_form(scope, headers)
        if scope["method"] in self.strangers.get(scope["path"], ()):
            return None
        caller = self.tokens.caller(_bearer(headers) or _model_key(headers, scope["path"]))
        if caller is None:
            raise Refusal(401, "unauthorized", "the token is missing or wrong", "agent-worker daemon status")
        if isinstance(caller, RunIdentity) and not _is_for_runs(scope["path"]):
            log.warning("%s (run %s) asked for %s %s", caller.name, caller.run, scope["method"], scope["path"])
            raise Refusal(403, "forbidden", "the token of a run opens its tools and its model, and nothing else")
        _check_door(caller, scope["path"])
        return caller

    def _check_browser(self, headers: RequestHeaders) -> None:
        hosts = {authority(self.host, self.port), f"localhost:{self.port}"}
        host = headers.only("host")
        if host not in hosts:
            raise Refusal(421, "misdirected", "this daemon is not the host you asked for")
        headers.check_page(f"http://{host}")

    def _check_form(self, scope: Message, headers: RequestHeaders) -> None:
        if scope["http_version"] != "1.1" or headers.has("upgrade"):
            raise Refusal(400, "bad_request", "only HTTP/1.1 is supported here")
        if headers.media_type != "application/json" and (scope["method"] in _WRITES or headers.has("content-type")):
            raise Refusal(415, "unsupported", "send JSON", "Content-Type: application/json")
        names = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(name.lower() in _SECRET_NAMES for name, _ in names):
            told = "a token does not belong in an address: addresses are logged"
            raise Refusal(400, "bad_request", told, "Authorization: Bearer …")


def _check_door(caller: Caller, path: str) -> None:
    """A token that was made for a door opens that one, and a door opens to its own tokens only."""
    door = next((door for door, begins in DOOR_PATHS.items() if path.startswith(begins)), None)
    if isinstance(caller, DoorToken) and caller.door != door:
        log.warning("token %s (%s) asked for %s", caller.id, caller.door, path[:200])
        raise Refusal(403, "forbidden", f"this token opens {DOOR_PATHS[caller.door]} and nothing else")
    if door is not None and not isinstance(caller, DoorToken):
        told = "this door has tokens of its own: one for each program, and each for one project"
        raise Refusal(403, "forbidden", told, "agent-worker token create mine")


class RequestHeaders:
    def __init__(self, scope: Message) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]

    def all(self, name: str) -> list[bytes]:
        return [value for each, value in self._headers if each == name.encode()]

    def has(self, name: str) -> bool:
        return bool(self.all(name))

    def only(self, name: str) -> str | None:
        """The value of a header; None also when it is there twice: which of them would be meant?"""
        values = self.all(name)
        return values[0].decode("latin-1") if len(values) == 1 else None

    @property
    def media_type(self) -> str:
        """What the body says it is, without its parameters."""
        return (self.only("content-type") or "").partition(";")[0].strip().lower()

    def check_page(self, origin: str) -> None:
        """Refuse a request that a web page of another origin makes."""
        foreign = self.has("origin") and self.only("origin") != origin
        if foreign or (self.has("sec-fetch-site") and self.only("sec-fetch-site") not in ("none", "same-origin")):
            raise Refusal(403, "forbidden", "requests from other web pages are refused")


def _bearer(headers: RequestHeaders) -> bytes:
    """The token that was sent, compared as bytes: whatever it is, it is only right or wrong."""
    values = headers.all("authorization")
    scheme, _, token = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    return token if scheme.lower() == b"bearer" else b""


def _model_key(headers: RequestHeaders, path: str) -> bytes:
    """The token of a run in the header where its program sends what it takes for the model's key."""
    sent = [value for name in KEY_HEADERS[1:] for value in headers.all(name.decode())]
    return sent[0] if len(sent) == 1 and _is_for_models(path) else b""


def _is_for_models(path: str) -> bool:
    return path.startswith(f"{MODEL_PATH}/")


def _is_for_runs(path: str) -> bool:
    """Whether this is one of the few addresses that the token of a run opens."""
    return path == TOOLS_PATH or _is_for_models(path)


def _trust_connection(scope: Message) -> None:
    """Tell the connection that its caller is no stranger: those of strangers are few and may be cut (connection.py)."""
    if connection := scope.get("extensions", {}).get("agent_worker"):
        connection["trust"]()


# --- size and time


class ClientGone(Exception):
    """The client left in the middle of its request."""


def _limit(caller: Caller | None, path: str) -> int:
    if isinstance(caller, RunIdentity) and _is_for_models(path):
        return LARGEST_MODEL_BODY
    return LARGEST_BODY if caller is not None else _LARGEST_STRANGERS_BODY


async def whole_body(scope: Message, receive: Receive, *, limit: int) -> bytes:
    declared = RequestHeaders(scope).only("content-length") or "0"
    if not declared.isascii() or not declared.isdigit() or len(declared) > 15 or int(declared) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    try:
        async with asyncio.timeout(_BODY_PATIENCE):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise Refusal(408, "too_slow", f"a request must arrive within {_BODY_PATIENCE:g} s") from None


def _too_large(limit: int) -> Refusal:
    told = f"a request can hold at most {limit // 1024:,} KiB"
    return Refusal(413, "too_large", told, "put a long text into a document, in parts")


def replayed(body: bytes, receive: Receive) -> Receive:
    """Hand out the body that was read already, then what follows: the news that the client left."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


# --- what leaves


def sending_safely(send: Send, pages: bytes = CSP_OF_PAGES) -> Send:
    """Send answers with headers that keep a browser from making anything of them; `pages` is the CSP of HTML."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = _safe(message.get("headers", ()), pages)
        await send(message)

    return guarded


def _safe(headers: Collection[tuple[bytes, bytes]], pages: bytes) -> list[tuple[bytes, bytes]]:
    ours = {name for name, _ in _ALWAYS} | {b"content-security-policy", b"cache-control"}
    kept = [(n, v) for n, v in headers if n.lower() not in ours and not n.lower().startswith(b"access-control-")]
    is_page = any(n.lower() == b"content-type" and v.lower().startswith(b"text/html") for n, v in kept)
    lasts = not is_page and (b"cache-control", LASTING.encode()) in headers
    return [
        *kept,
        *_ALWAYS,
        (b"cache-control", LASTING.encode() if lasts else b"no-store"),
        (b"content-security-policy", pages if is_page else CSP_OF_DATA),
    ]


async def refuse(refusal: Refusal, receive: Receive, send: Send) -> None:
    body = json.dumps({"error": refusal.error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    # Closed at once, it would be cut while it still sends, and never read why.
    try:
        async with asyncio.timeout(_DRAIN_PATIENCE):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})
