"""`Workers`: agents and teams at work, in this process or in the daemon, with the same verbs.

    async with agent_worker.local() as workers:
        answer = await workers.ask(alice, "hello")

    with agent_worker.local() as workers:
        answer = workers.ask_sync(alice, "hello")

Every verb calls operations of the runtime through `Operations`: local.py calls them directly, connected.py over HTTP.
Values are handed over when they are first used. Opened with `async with`, everything happens in the loop that opened
it; with `with`, or by the first blocking verb, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar, overload

from agent_worker.api.blocking import Blocking, LoopThread, running_loop
from agent_worker.api.following import (
    ask_agent,
    close_stream,
    closing_stream,
    follow_agent,
    follow_team,
    for_program,
    next_of,
    run_team,
)
from agent_worker.api.functions import OwnFunctions
from agent_worker.api.results import (
    Answer,
    ChannelMessage,
    HappeningEvent,
    InboxItem,
    MemoryItem,
    RunReport,
    Sending,
    StreamEvent,
    TeamAnswer,
)
from agent_worker.api.teams import RunningTeam, happening
from agent_worker.api.values import Agent, Team
from agent_worker.core.errors import NotRunning, Refused, Untrusted
from agent_worker.core.ids import new_id

T = TypeVar("T")


class Operations(Protocol):
    """How `Workers` calls the operations of a runtime, wherever that is."""

    project: str  #: the directory of the project that is meant
    program: str  #: what we are called there

    async def open(self, functions: OwnFunctions) -> None: ...
    async def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def call(self, operation: str, arguments: dict[str, Any]) -> Any: ...
    async def stream(self, operation: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of an operation, from the moment this has returned."""
        ...


class Workers:
    """Made by `local` and `connect`."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._functions = OwnFunctions()
        self._handed: dict[tuple[type, str], Agent | Team] = {}
        self._handing: asyncio.Lock | None = None
        self._thread: LoopThread | None = None
        self._opening = threading.Lock()  # several threads may ask the first question
        self._loop: asyncio.AbstractEventLoop | None = None  #: that opened it, while it is open
        self._is_open = False
        self._forgotten: weakref.finalize[..., Workers] | None = None

    # --- opening and closing --------------------------------------------------------------------------

    async def __aenter__(self) -> Workers:
        if self._is_open:
            raise Refused("it is open already")
        self._loop = running_loop()
        self._handing = asyncio.Lock()
        self._handed.clear()
        await self._operations.open(self._functions)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._operations.close(kind, error, trace)

    def __enter__(self) -> Workers:
        if self._is_open:
            raise Refused("it is open already")
        self._thread = LoopThread()
        try:
            self._thread.start()
            self._thread.wait_for(self.__aenter__())
            # Who forgets to close it, and then it, leaves no thread behind that works in a directory that is gone.
            self._forgotten = weakref.finalize(
                self, self._thread.leave, partial(self._operations.close, None, None, None)
            )
            self._forgotten.atexit = False
        except BaseException as error:  # it may have been opened all the same: an interruption comes at any moment
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None or not self._thread.is_here:
            return
        if self._forgotten is not None:
            self._forgotten.detach()
        try:
            if self._is_open:
                self._thread.wait_for(self.__aexit__(kind, error, trace))
        finally:
            self._end_thread()

    def close(self) -> None:
        """End what a blocking method has opened. Nothing is lost: accepted work is in `home`, if there is one."""
        self.__exit__(None, None, None)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this in a program without an event loop: each method that ends in `_sync` does it."""
        if self._thread is None and self._is_open:
            work.close()
            raise Refused(
                "a blocking call would stop the event loop that it waits for",
                hint="await the method without _sync, or open with `with` instead of `async with`",
            )
        try:
            with self._opening:
                if self._thread is None:
                    self.__enter__()
                assert self._thread is not None
                thread = self._thread
        except BaseException:
            work.close()
            raise
        return thread.wait_for(work)

    # --- values ---------------------------------------------------------------------------------------

    async def add(self, *values: Agent | Team) -> None:
        """Pass in agents and teams, many at once. Those that you use are passed in anyway."""
        agents = [each for each in values if isinstance(each, Agent)]
        teams = [each for each in values if isinstance(each, Team)]
        agents += [member for team in teams for member in team.members]
        self._check_open()
        assert self._handing is not None
        async with self._handing:
            new_agents = {each.name: each for each in agents if self._handed.get((Agent, each.name)) != each}
            new_teams = {each.name: each for each in teams if self._handed.get((Team, each.name)) != each}
            if not new_agents and not new_teams:
                return
            await self.operate(
                "values_put",
                program=self._operations.program,
                project=self._operations.project,
                agents={name: each.definition() for name, each in new_agents.items()},
                workflows={name: each.definition() for name, each in new_teams.items()},
                functions={name: self._functions.take(each) for name, each in new_agents.items()},
            )
            self._handed |= {(Agent, name): each for name, each in new_agents.items()}
            self._handed |= {(Team, name): each for name, each in new_teams.items()}

    async def _named(self, value: Agent | Team | RunningTeam | str) -> str:
        """What a value is called, once it is handed over."""
        if isinstance(value, str):
            return value
        if isinstance(value, Agent | Team):
            await self.add(value)
        return value.name

    # --- verbs ----------------------------------------------------------------------------------------

    @overload
    async def ask(self, agent: Agent | str, text: str, *, key: str | None = None) -> Answer[str]: ...
    @overload
    async def ask(self, agent: Agent | str, text: str, *, output: type[T], key: str | None = None) -> Answer[T]: ...
    async def ask(
        self, agent: Agent | str, text: str, *, output: type[Any] | None = None, key: str | None = None
    ) -> Answer[Any]:
        """Ask an agent, and wait for its answer. Raises BackendFailure when it could not answer.

        With `output` the answer is a value of that type; the agent is told what is wrong with it, and asked again,
        before WrongOutput is raised. With the same `key` the same question is asked once, even by a program that was
        killed and runs again. If a person has to answer first, the state is `waiting`.
        """
        return await self._ask(agent, text, output, key)

    async def _ask(self, agent: Agent | str, text: str, output: type[Any] | None, key: str | None) -> Answer[Any]:
        name, key = await self._named(agent), key or new_id("k")
        if output is not None:
            from agent_worker.api.output import OutputType  # pydantic: for those who want a type

            return await OutputType(output).asked(partial(ask_agent, self), name, text, key)
        return await ask_agent(self, name, text, key)

    async def stream(
        self, whom: Agent | Team | str, text: str | None = None, *, key: str | None = None, tag: str = "main"
    ) -> AsyncIterator[StreamEvent]:
        """Ask an agent, or run a team, and see what happens: text as it is written, tool calls, questions, usage.

        The last event is the Answer, or the TeamAnswer. If a person is asked, the stream continues once somebody has
        answered: here (`Asked`), or anywhere else.
        """
        name = await self._named(whom)
        if isinstance(whom, Team) or text is None:
            following: AsyncIterator[StreamEvent] = follow_team(self, name, text, tag, {}, leaves=False)
        else:
            following = follow_agent(self, name, text, key or new_id("k"), leaves=False)
        async with closing_stream(following) as events:
            async for event in events:
                yield event

    async def run(
        self,
        team: Team | str,
        message: str | None = None,
        *,
        tag: str = "main",
        params: Mapping[str, str] | None = None,
    ) -> TeamAnswer:
        """Let a team work until everybody is done, and return the result."""
        name = await self._named(team)
        return await run_team(self, name, message, tag, dict(params or {}))

    async def start(
        self,
        team: Team | str,
        message: str | None = None,
        *,
        tag: str = "main",
        params: Mapping[str, str] | None = None,
    ) -> RunningTeam:
        """Start a team that stays until it is stopped."""
        name = await self._named(team)
        made = await self.operate(
            "workflow_start",
            workflow=name,
            project=self._operations.project,
            tag=tag,
            params=dict(params or {}),
            message=message,
        )
        members = tuple(each["name"] for each in made["members"])
        return RunningTeam(made["name"], members, made["directory"], self._operations.project, self)

    async def send(self, to: Agent | RunningTeam | str, text: str, *, key: str | None = None) -> Sending:
        """Deliver a message, and do not wait for an answer: to an agent, `@team`, or `alice@team`."""
        name = await self._named(to)
        address = f"@{name}" if isinstance(to, RunningTeam) else name
        made = await self.operate("send", to=address, message=text, project=self._operations.project, key=key)
        return Sending(made["id"], tuple(made["woke"]), made["told"])

    async def messages(self, at: Agent | RunningTeam | str, *, since: int = 0) -> list[ChannelMessage]:
        """What was said in a channel (`@team`), or in the conversation with an agent."""
        name = await self._named(at)
        address = f"@{name}" if isinstance(at, RunningTeam) else name
        found = await self.operate("read", at=address, project=self._operations.project, since=since, limit=1000)
        return [ChannelMessage(each["sender"], each["text"], each["seq"], each["at"]) for each in found]

    async def inbox(self) -> list[InboxItem]:
        """Everything that waits for a person."""
        found = await self.operate("inbox_list", project=self._operations.project)
        return [InboxItem.of(each, self) for each in found]

    async def explain(self, run: Answer[Any] | str) -> RunReport:
        """What a run saw, did and said: of an answer, or by its id."""
        found = await self.operate("explain", run=run if isinstance(run, str) else run.run)
        about = found["run"]
        parts = found["instruction"], found["text"], tuple(found["sections"]), tuple(found["steps"])
        return RunReport(about["id"], about["agent"], about["state"], about["reason"], *parts)

    async def memory(self, agent: Agent | str) -> list[MemoryItem]:
        """What an agent remembers."""
        found = await self.operate("memory_show", name=await self._named(agent), project=self._operations.project)
        return [MemoryItem(each["key"], each["value"], each["file"], each["by"]) for each in found["entries"]]

    async def remember(self, agent: Agent | str, key: str, value: str) -> None:
        """Let an agent remember something; an empty value makes it forget."""
        name = await self._named(agent)
        await self.operate("memory_set", name=name, key=key, value=value, project=self._operations.project)

    async def events(self) -> AsyncIterator[HappeningEvent]:
        """Everything that happens from now on: `async for event in await workers.events()`."""
        self._check_open()
        return happening(await self.follow("events", project=self._operations.project))

    async def problems(self) -> list[str]:
        """What is wrong in the files of the project, each with file and line."""
        found = await self.operate("status", project=self._operations.project)
        return [str(each) for each in found["project"]["problems"]]

    @property
    def project(self) -> str:
        """The directory of the project."""
        return self._operations.project

    # --- blocking twins -------------------------------------------------------------------------------

    @overload
    def ask_sync(self, agent: Agent | str, text: str, *, key: str | None = None) -> Answer[str]: ...
    @overload
    def ask_sync(self, agent: Agent | str, text: str, *, output: type[T], key: str | None = None) -> Answer[T]: ...
    def ask_sync(
        self, agent: Agent | str, text: str, *, output: type[Any] | None = None, key: str | None = None
    ) -> Answer[Any]:
        return self.wait_for(self._ask(agent, text, output, key))

    def stream_sync(
        self, whom: Agent | Team | str, text: str | None = None, *, key: str | None = None, tag: str = "main"
    ) -> Iterator[StreamEvent]:
        events = self.stream(whom, text, key=key, tag=tag)
        try:
            while (event := self.wait_for(next_of(events))) is not None:
                yield event
        finally:
            self.wait_for(close_stream(events))

    run_sync = Blocking(run)
    start_sync = Blocking(start)
    send_sync = Blocking(send)
    messages_sync = Blocking(messages)
    inbox_sync = Blocking(inbox)
    explain_sync = Blocking(explain)
    memory_sync = Blocking(memory)
    remember_sync = Blocking(remember)
    add_sync = Blocking(add)

    # --- below ----------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotRunning("it is not open", hint="async with agent_worker.local() as workers: …")
        if running_loop() is not self._loop:
            raise Refused(
                "it was opened in another event loop",
                hint="open it in this one; or open it with `with`, and use the methods that end in _sync from anywhere",
            )

    async def operate(self, operation: str, **arguments: Any) -> Any:
        """Call an operation of the runtime by its name: plain data in, plain data out."""
        self._check_open()
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return await self._operations.call(operation, given)
        except Untrusted as error:
            raise for_program(error, self.project) from None

    async def follow(self, operation: str, **arguments: Any) -> AsyncIterator[dict[str, Any]]:
        """Call an operation that streams events."""
        self._check_open()
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return await self._operations.stream(operation, given)
        except Untrusted as error:
            raise for_program(error, self.project) from None
