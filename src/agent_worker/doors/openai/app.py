"""The door of programs that speak OpenAI's API: agents and teams are its models.

Reads, calls the service once, writes. Who is asking, and for which project, is the door token that the request guard
has found; what is done is decided in service/. An error after work was accepted says that it must not be tried again:
OpenAI's own clients would, and so ask the same twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound
from agent_worker.core.ids import new_id
from agent_worker.doors.errors import status_of
from agent_worker.doors.event_stream import EventResponse, left
from agent_worker.doors.openai.answer import AnswerBegun, AnswerEnd, Telling, ToolUse, problem
from agent_worker.doors.openai.chat import ChatStream, completion
from agent_worker.doors.openai.models import model_called, models_of
from agent_worker.doors.openai.request import DoorQuestion, chat_question, response_question
from agent_worker.doors.openai.responses import ResponseStream, response, whole
from agent_worker.doors.openai.retrieval import retrieved
from agent_worker.doors.openai.target import Targets
from agent_worker.doors.request_body import check_texts, read_object
from agent_worker.service.followed import Followed, Served
from agent_worker.service.run import begin_work
from agent_worker.service.service import Service
from agent_worker.work.door_tokens import DoorToken

AT_ONCE = 64  #: questions that are answered at the same time

log = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Response]]


class HungUp(AgentWorkerError):
    """Raised when the client has left, and nobody is there to be told."""

    code = "hung_up"


class TooManyQuestions(AgentWorkerError):
    code = "too_many"


def make(service: Service) -> ASGIApp:
    door = _OpenAiDoor(service)
    routes = [
        Route("/v1/models", door.explained(door.models), methods=["GET"]),
        Route("/v1/models/{model:path}", door.explained(door.model), methods=["GET"]),
        Route("/v1/chat/completions", door.explained(door.chat), methods=["POST"]),
        Route("/v1/responses", door.explained(door.respond), methods=["POST"]),
        Route("/v1/responses/{id}", door.explained(door.retrieve), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: door.unrouted})
    app.router.redirect_slashes = False
    return app


class _OpenAiDoor:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._targets = Targets(service)
        self._open = 0

    async def models(self, request: Request) -> Response:
        loaded = await self._project(request)
        listed = await models_of(self._service, loaded, _token(request))
        return JSONResponse({"object": "list", "data": listed})

    async def model(self, request: Request) -> Response:
        loaded = await self._project(request)
        listed = await models_of(self._service, loaded, _token(request))
        return JSONResponse(model_called(request.path_params["model"], listed))

    async def chat(self, request: Request) -> Response:
        body = await _body(request)
        question = chat_question(body, request.headers)
        telling, work = await self._ask(request, question)
        at = self._now()
        if question.stream:
            return self._streamed(ChatStream(question, telling, work, at=at, redact=self._redact))
        id, served, _ = await self._unless_left(request, telling, work)
        return JSONResponse(completion(f"chatcmpl-{id}", question, served, at=at))

    async def respond(self, request: Request) -> Response:
        body = await _body(request)
        question = response_question(body, request.headers)
        telling, work = await self._ask(request, question)
        at = self._now()
        if question.stream:
            return self._streamed(ResponseStream(question, telling, work, at=at, redact=self._redact))
        id, served, uses = await self._unless_left(request, telling, work)
        return JSONResponse(whole(f"resp_{id}", question, served, uses, at=at))

    async def retrieve(self, request: Request) -> Response:
        """What has come of an earlier question by now."""
        loaded = await self._project(request)
        id = request.path_params["id"]
        found = await retrieved(self._service, loaded, _token(request), id)
        question = DoorQuestion(found.model, "")
        if found.served is None:
            return JSONResponse(response(id, question, at=found.at))
        return JSONResponse(whole(id, question, found.served, (), at=found.at))

    # --- asking

    async def _ask(self, request: Request, question: DoorQuestion) -> tuple[Telling, Followed]:
        if self._open >= AT_ONCE:
            raise TooManyQuestions(f"{AT_ONCE} questions are already being answered", hint="ask again in a moment")
        loaded = await self._project(request)
        target = await self._targets.of(loaded, _token(request), question)
        try:
            work = await begin_work(self._service, target.request)
        finally:
            self._targets.give_back(target)
        work.leaves_when_asked = True
        self._open += 1
        return Telling(self._service, loaded, work, is_team=target.is_team), work

    async def _unless_left(
        self, request: Request, telling: Telling, work: Followed
    ) -> tuple[str, Served, list[ToolUse]]:
        """The answer, unless the client hangs up first: then nothing is held open for it."""
        waiting = asyncio.create_task(self._awaited(telling, work))
        leaving = asyncio.create_task(left(request.receive))
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise HungUp("whoever asked has left", hint="GET /v1/responses/ID tells what came of it")
            return waiting.result()
        finally:
            leaving.cancel()
            waiting.cancel()
            await asyncio.wait({waiting})

    async def _awaited(self, telling: Telling, work: Followed) -> tuple[str, Served, list[ToolUse]]:
        id, uses = "", dict[int, ToolUse]()
        try:
            async for told in telling:
                match told:
                    case AnswerBegun(known):
                        id = known
                    case ToolUse() as use:
                        uses[use.n] = use
                    case AnswerEnd(served):
                        return id, served, [*uses.values()]
        except AgentWorkerError as error:
            raise _Final(error) from error
        finally:
            self._answered()
            await work.close()
        raise AssertionError("work that is followed has an end")

    def _streamed(self, stream: ChatStream | ResponseStream) -> Response:
        return EventResponse(stream, ended=self._answered, closing=self._service.closing)

    def _answered(self) -> None:
        self._open -= 1

    async def _project(self, request: Request) -> LoadedProject:
        return await self._service.project(_token(request).root)

    def _now(self) -> int:
        return self._service.now() // 1_000_000

    @property
    def _redact(self) -> Callable[[str], str]:
        return self._service.runtime.database.redact

    # --- errors

    def explained(self, answer: Answer) -> Answer:
        async def explain(request: Request) -> Response:
            try:
                return await answer(request)
            except _Final as final:
                return self._failure(final.error, {"x-should-retry": "false"})
            except AgentWorkerError as error:
                return self._failure(error)
            except Exception:  # boundary
                id = new_id("e")
                log.exception("%s %s failed: %s", request.method, request.scope["path"], id)
                bug = AgentWorkerError(f"this should not have happened: {id}", hint="agent-worker daemon logs")
                return self._failure(bug, {"x-should-retry": "false"})

        return explain

    def _failure(self, error: AgentWorkerError, headers: dict[str, str] | None = None) -> Response:
        status = 400 if isinstance(error, BadInput) and not isinstance(error, NotFound) else status_of(error)
        told: dict[str, Any] = problem(error)
        told["message"] = self._redact(told["message"])
        if status >= 500:
            told["type"] = "server_error"
        return JSONResponse({"error": told}, status, headers)

    async def unrouted(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        told = NotFound(f"there is no {request.method} {request.scope['path'][:200]} here", hint="GET /v1/models")
        return self._failure(told)


class _Final(Exception):
    """Raised for work that was accepted and failed: asked again, it would be done again."""

    def __init__(self, error: AgentWorkerError) -> None:
        super().__init__(error.message)
        self.error = error


def _token(request: Request) -> DoorToken:
    caller = request.scope["caller"]
    assert isinstance(caller, DoorToken), "the request guard lets nobody else in here"
    return caller


async def _body(request: Request) -> dict[str, Any]:
    body = read_object(await request.body())
    check_texts(body)
    return body
