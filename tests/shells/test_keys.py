"""Keys as a newcomer meets them: forgotten at first, then stored, exported or written into `.env`; the work goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests import stored
from tests.fakes.model_server import ModelServer
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, fresh_daemon_command, kill_daemon
from tests.shells.terminal import KEYS, Terminal, terminal_knowing

from agent_worker.client.connection import connect

KEY, OTHER = "sk-canary-of-these-tests", "sk-another-canary-of-theirs"
SDK = {"alice": "backend: sdk\nmodel: openai-chat/gpt-5\nprompt: { system: You are alice. }\n"}


def used(server: ModelServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


def alice(daemon: Served) -> dict[str, Any]:
    found: list[dict[str, Any]] = daemon.client.request("GET", daemon.query("/agents"))[1]
    return next(each for each in found if each["name"] == "alice")


async def state_is(daemon: Served, state: str) -> dict[str, Any]:
    """Her, waiting with work or idle without."""

    def look() -> dict[str, Any] | None:
        seen = alice(daemon)
        return seen if seen["state"] == state and bool(seen["queued"]) == (state == "waiting") else None

    found: dict[str, Any] = await asyncio.to_thread(eventually, look)
    return found


async def told(terminal: Terminal, *arguments: str, **how: Any) -> str:
    return await asyncio.to_thread(terminal.says, *arguments, **how)


async def inbox(terminal: Terminal) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await told(terminal, "inbox", "--json"))
    return found


async def test_work_without_a_key_waits_says_what_to_type_and_goes_on_once_it_is_set(
    tmp_path: Path, server: ModelServer
) -> None:
    async with terminal_knowing(tmp_path, SDK, OPENAI_BASE_URL=server.url("ok", "/v1")) as terminal:
        await told(terminal, "send", "alice", "hello")
        wait = (await state_is(terminal.daemon, "waiting"))["waiting"]
        assert wait["what"] == "key"
        assert wait["reason"].endswith("OPENAI_API_KEY is not set: agent-worker key set openai")
        (item,) = await inbox(terminal)
        assert (item["kind"], item["agent"]) == ("key", "alice")
        assert "agent-worker key set openai" in item["text"]
        doctor = (await asyncio.to_thread(terminal.run, "doctor")).stdout
        assert "!!  keys: alice waits for a key: there is no key for openai: OPENAI_API_KEY is not set\n" in doctor
        assert "      fix: agent-worker key set openai\n" in doctor
        receipt = await told(terminal, "key", "set", "openai", stdin=f"{KEY}\n")
        assert receipt == "OPENAI_API_KEY is stored; what waited for it continues (1 agent)\n"
        await state_is(terminal.daemon, "idle")
        assert used(server) == [KEY]
        assert await inbox(terminal) == []
        listed = await told(terminal, "key", "list")
        doctor = (await asyncio.to_thread(terminal.run, "doctor")).stdout
        assert listed == "OPENAI_API_KEY (openai): from the store\n"
        assert "keys: OPENAI_API_KEY, from the store" in doctor
        assert await told(terminal, "key", "remove", "openai") == "OPENAI_API_KEY is no longer stored\n"
        await told(terminal, "send", "alice", "again")
        assert (await state_is(terminal.daemon, "waiting"))["waiting"]["what"] == "key"
        everything = listed + doctor + receipt + terminal.daemon.log() + str(terminal.daemon.read(stored.runs))
        assert KEY not in everything


async def test_whoever_asks_is_told_what_it_waits_for_and_gets_the_answer_once_the_key_is_there(
    tmp_path: Path, server: ModelServer
) -> None:
    async with terminal_knowing(tmp_path, SDK, OPENAI_BASE_URL=server.url("ok", "/v1")) as terminal:
        asking = asyncio.create_task(asyncio.to_thread(terminal.run, "ask", "alice", "hello", "--wait"))
        await state_is(terminal.daemon, "waiting")
        late = asyncio.create_task(asyncio.to_thread(terminal.run, "ask", "alice", "me too", "--wait"))
        await asyncio.to_thread(eventually, lambda: alice(terminal.daemon)["queued"] == 2)
        await told(terminal, "key", "set", "openai", stdin=KEY)
        for done in (await asking, await late):
            assert (done.returncode, done.stdout) == (0, "All is well.\n")
            assert done.stderr.endswith("OPENAI_API_KEY is not set: agent-worker key set openai\n")


async def test_whoever_asks_one_who_is_waiting_for_its_model_already_is_told_why(
    tmp_path: Path, server: ModelServer
) -> None:
    def told_to_the_second(terminal: Terminal) -> str:
        with terminal.on_screen("ask", "alice", "me too") as screen:
            screen.sees("alice waits: openai-chat/gpt-5: 429")
        asking = terminal.start("ask", "alice", "me too")
        assert asking.stderr
        line = asking.stderr.readline()
        asking.kill()
        asking.communicate()
        return line

    known = {"OPENAI_BASE_URL": server.url("429", "/v1"), "OPENAI_API_KEY": KEY}
    async with terminal_knowing(tmp_path, SDK, **known) as terminal:
        await told(terminal, "send", "alice", "hello")
        assert (await state_is(terminal.daemon, "waiting"))["waiting"]["what"] == "model"
        assert (await asyncio.to_thread(told_to_the_second, terminal)).startswith("alice waits: openai-chat/gpt-5: 429")


async def test_a_key_of_ones_own_that_is_exported_is_told_to_be_handed_over(
    tmp_path: Path, server: ModelServer
) -> None:
    """Only keys of known providers travel with a command; that this one is set would be no use, and be said nowhere."""
    where = {"name": "mine", "base_url": server.url("ok", "/v1"), "api_key": "$MY_KEY"}
    own = {"alice": f"backend: sdk\nmodel: x\nprovider: {json.dumps(where)}\nprompt: {{ system: You are alice. }}\n"}
    line = "printenv MY_KEY | agent-worker key set MY_KEY\n"
    async with terminal_knowing(tmp_path, own) as terminal:
        asked = ("ask", "alice", "hello", "--trust")
        without = await asyncio.to_thread(terminal.run, *asked)
        with_it = await asyncio.to_thread(terminal.run, *asked, MY_KEY=KEY)
    assert (without.returncode, line in without.stderr) == (4, False), without.stderr
    assert (with_it.returncode, line in with_it.stderr) == (4, True), with_it.stderr


async def test_on_a_terminal_the_key_that_is_missing_is_told_in_a_line_of_its_own(tmp_path: Path) -> None:
    def seen(terminal: Terminal) -> str:
        with terminal.on_screen("ask", "alice", "hello") as screen:
            screen.sees("alice waits for a key…")
            return screen.stays

    async with terminal_knowing(tmp_path, SDK) as terminal:
        lines = (await asyncio.to_thread(seen, terminal)).splitlines()
        told = [line for line in lines if "OPENAI_API_KEY is not set" in line]
        assert [line.partition(":")[0] for line in told] == ["alice waits"], "nothing is glued to it"


async def test_in_a_pipe_what_waits_for_a_key_ends_with_a_line_and_a_code_of_its_own_and_is_kept(
    tmp_path: Path, server: ModelServer
) -> None:
    async with terminal_knowing(tmp_path, SDK, OPENAI_BASE_URL=server.url("ok", "/v1")) as terminal:
        for command in (("ask", "alice", "hello"), ("run", "alice", "hello"), ("run", "review", "@alice hello")):
            done = await asyncio.to_thread(terminal.run, *command)  # all but the first find it waiting
            assert done.returncode == 4
            assert "OPENAI_API_KEY is not set: agent-worker key set openai\n" in done.stderr
            assert done.stderr.endswith("(to wait here: --wait)\n")
        await told(terminal, "key", "set", "openai", stdin=KEY)
        await state_is(terminal.daemon, "idle")
        assert used(server) == [KEY] * 3


async def test_a_key_exported_after_the_daemon_began_is_brought_by_the_next_command_and_kept_in_memory_only(
    tmp_path: Path, server: ModelServer
) -> None:
    exported = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url("ok", "/v1"), "GITHUB_TOKEN": "not a provider's"}
    async with terminal_knowing(tmp_path, SDK) as terminal:
        await told(terminal, "send", "alice", "hello")
        await state_is(terminal.daemon, "waiting")
        doctor = (await asyncio.to_thread(terminal.run, "doctor", **exported)).stdout
        assert "keys: OPENAI_API_KEY, from the environment of a command, until the daemon ends" in doctor
        await state_is(terminal.daemon, "idle")
        assert used(server) == [KEY]
        files = [each for each in terminal.daemon.home.rglob("*") if each.is_file()]
        assert not [each.name for each in files if KEY.encode() in each.read_bytes()]
        assert (await told(terminal, "key", "list")).startswith("OPENAI_API_KEY (openai): from the environment of a")


async def test_work_that_a_restart_without_keys_takes_up_waits_instead_of_failing(
    tmp_path: Path, server: ModelServer
) -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url("hang", "/v1")}
    async with terminal_knowing(tmp_path, SDK, **environ) as terminal:
        daemon = terminal.daemon
        await told(terminal, "send", "alice", "hello")
        await asyncio.to_thread(eventually, lambda: used(server))
        kill_daemon(daemon.home, daemon.client.found)
        keyless = ("env", *(part for name in KEYS for part in ("-u", name)))
        command = (*keyless, *fresh_daemon_command(daemon.home, OPENAI_BASE_URL=server.url("ok", "/v1")))
        client = await asyncio.to_thread(connect, home=daemon.home, command=command, patience=PATIENCE)
        try:
            again = Served(client, daemon.home, daemon.project)
            assert (await state_is(again, "waiting"))["waiting"]["what"] == "key"
            assert [item["kind"] for item in await inbox(terminal)] == ["key"]
            await told(terminal, "key", "set", "openai", stdin=OTHER)
            await state_is(again, "idle")
            assert used(server) == [KEY, OTHER]
        finally:
            kill_daemon(daemon.home, client.found)


async def test_a_projects_env_file_is_used_once_it_is_approved(tmp_path: Path, server: ModelServer) -> None:
    async with terminal_knowing(tmp_path, SDK, OPENAI_BASE_URL=server.url("ok", "/v1")) as terminal:
        evil = "OPENAI_BASE_URL=http://127.0.0.1:9/v1\n"
        (terminal.daemon.project / ".env").write_text(f"{evil}OPENAI_API_KEY={KEY}\n")
        await told(terminal, "send", "alice", "hello")
        await state_is(terminal.daemon, "waiting")
        assert "once you approve it (agent-worker trust)" in await told(terminal, "key", "list")
        refused = await asyncio.to_thread(terminal.run, "trust")
        assert refused.returncode == 2
        assert "the project's .env gives its agents the keys OPENAI_API_KEY" in refused.stderr
        assert KEY not in refused.stderr
        await told(terminal, "trust", "--yes")
        await state_is(terminal.daemon, "idle")
        assert used(server) == [KEY], "sent where the user's environment says, not where the project does"


async def test_an_env_file_that_cannot_be_read_is_told_by_the_commands_that_look_at_keys(tmp_path: Path) -> None:
    async with terminal_knowing(tmp_path, SDK) as terminal:
        (terminal.daemon.project / ".env").write_bytes(b"OPENAI_API_KEY=\xff")
        said = "the keys in .env are not used: '.env' is not UTF-8 text"
        for line in (["validate"], ["key", "list"]):
            looked = await asyncio.to_thread(terminal.run, *line)
            assert (looked.returncode, said in looked.stderr) == (0, True), line
        looked = await asyncio.to_thread(terminal.run, "doctor")
        assert (looked.returncode, f"!!  keys: {said}" in looked.stdout) == (1, True), looked.stdout
        await told(terminal, "send", "alice", "hello")
        waits = await state_is(terminal.daemon, "waiting")
        assert said in waits["waiting"]["reason"]


async def test_a_key_in_the_command_line_is_refused_and_so_is_one_of_nobody(tmp_path: Path) -> None:
    async with terminal_knowing(tmp_path) as terminal:
        typed = await asyncio.to_thread(terminal.run, "key", "set", "openai", KEY)
        unknown = await asyncio.to_thread(terminal.run, "key", "set", "opneai", stdin=KEY)
        missing = await asyncio.to_thread(terminal.run, "key", "remove", "groq")
    assert (typed.returncode, unknown.returncode, missing.returncode) == (2, 2, 2)
    assert "does not belong on the command line" in typed.stderr
    assert "did you mean: agent-worker key set openai" in unknown.stderr
    assert "no key is stored under GROQ_API_KEY" in missing.stderr
