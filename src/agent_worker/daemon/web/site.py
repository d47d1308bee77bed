"""The page's doors: its frame and files for anybody, a token for who shows a code, and the views for who has a token.

The frame holds no secret and no data. Views are server-rendered and travel as JSON, so what was stored is never
served as a page; the page puts them in place (static/place.js). Every argument is checked as for any operation.
"""

from __future__ import annotations

import secrets
from importlib import resources

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from agent_worker.core.errors import BadInput
from agent_worker.core.text import plural
from agent_worker.daemon.http.request_guard import LASTING, Tokens
from agent_worker.daemon.http.routes import Endpoint, Routes, arguments, failure, route
from agent_worker.daemon.web.login import SECONDS, LoginCodes, PageTokens
from agent_worker.daemon.web.views import VIEWS
from agent_worker.files.root import Root
from agent_worker.service.service import Service

_KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATIC = resources.files(__package__) / "static"
_STYLES = sorted(
    (each.name for each in _STATIC.iterdir() if each.name.endswith(".css")), key=lambda n: (n != "style.css", n)
)
_FILES = (*sorted(each.name for each in _STATIC.iterdir() if each.name.endswith(".js")), "style.css", "icon.svg")

#: Where its files are: a browser keeps them for as long as this process lives, and asks for none of them twice. Nobody
#: can know the name before: whoever had our port earlier could else have left a browser a script of its own.
PLACE = f"/page/{secrets.token_hex(8)}"

#: What needs no token: path → methods.
STRANGERS = {"/": {"GET"}, "/page/login": {"POST"}} | {f"{PLACE}/{name}": {"GET"} for name in _FILES}


def page_routes(service: Service, tokens: Tokens, home: Root) -> list[BaseRoute]:
    """The routes of the page; `home` is where the daemon keeps who is signed in."""
    pages = PageTokens(home, tokens, service.runtime.clock)
    codes = LoginCodes(pages, service.runtime.clock)

    async def make_code(request: Request) -> Response:
        project = (await arguments(request)).get("project")
        if project is not None:
            await service.project(str(project))  # so that the page shows the project it was opened from
        return JSONResponse({"code": codes.make(), "seconds": SECONDS})

    async def login(request: Request) -> Response:
        code = (await arguments(request)).get("code")
        if not isinstance(code, str):
            raise BadInput("show the code", hint="agent-worker web")
        token = codes.redeem(code)
        if token is None:
            return failure(401, "unauthorized", "this code was used, or is older than a minute", "agent-worker web")
        return JSONResponse({"token": token})

    async def logout(request: Request) -> Response:
        return JSONResponse({"told": f"{plural(pages.end_all(), 'page')} signed out"})

    return [
        route("GET", "/", _file("index.html")),
        *(route("GET", f"{PLACE}/{name}", _file(name)) for name in _FILES),
        route("POST", "/page/code", make_code),
        route("POST", "/page/login", login),
        route("POST", "/page/logout", logout),
        *Routes(service).routes(VIEWS),
    ]


def _file(name: str) -> Endpoint:
    names = _STYLES if name == "style.css" else (name,)  # the styles of all views are one file to the browser
    content = b"\n".join((_STATIC / each).read_bytes() for each in names)
    if name == "index.html":
        content = content.replace(b'"/page/', f'"{PLACE}/'.encode()).replace(b"</head>", _preloaded() + b"</head>")
    kind = _KINDS[name[name.rindex(".") :]]
    headers = {} if name == "index.html" else {"Cache-Control": LASTING}

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind, headers=headers)

    return answer


def _preloaded() -> bytes:
    """Links by which the browser asks for all modules at once, not for each when it has read who needs it."""
    modules = (name for name in _FILES if name.endswith(".js"))
    return "".join(f'<link rel="modulepreload" href="{PLACE}/{name}">\n' for name in modules).encode()
