"""`providers --test`: whether each key that is there is good, said in words and by the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.fakes.model_server import ModelServer
from tests.shells.served import served
from tests.shells.terminal import Terminal, terminal_knowing

from agent_worker.backends.models.providers import PROVIDERS

KEY = "sk-ant-canary-of-this-test"


async def run(terminal: Terminal, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(terminal.run, "providers", "--test", *arguments)


async def test_a_good_key_is_proved_with_one_tiny_request_that_says_what_it_cost(
    tmp_path: Path, server: ModelServer
) -> None:
    async with terminal_knowing(tmp_path, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.url("ok")) as terminal:
        done = await run(terminal, "anthropic", "--json")
        spent = json.loads((await asyncio.to_thread(terminal.run, "stats", "--json")).stdout)
        everything = await run(terminal)
        twice = json.loads((await asyncio.to_thread(terminal.run, "stats", "--json")).stdout)
    assert done.returncode == 0, done.stderr
    (tested,) = json.loads(done.stdout)
    assert (tested["state"], tested["model"], tested["tokens"]) == ("ok", PROVIDERS["anthropic"].cheap, 120)
    assert tested["usd"] > 0
    assert tested["estimated"] is False
    assert (spent["tokens"], spent["usd"], spent["runs"]) == (120, pytest.approx(tested["usd"]), 0), "the project pays"
    assert (twice["tokens"], twice["usd"]) == (240, pytest.approx(2 * tested["usd"]))
    assert "counts towards what this project spends today" in everything.stdout
    (first, _) = server.requests
    assert first.headers["x-api-key"] == KEY
    assert first.body["max_tokens"] == 1
    assert len(first.body["messages"]) == 1
    assert everything.returncode == 0, "those without a key were not tried, so none of them failed"
    assert "it answers; 120 tokens" in everything.stdout
    assert "there is no key (agent-worker key set mistral)" in everything.stdout
    assert KEY not in done.stdout + everything.stdout


async def test_what_is_wrong_is_said_in_words_and_by_the_exit_code(tmp_path: Path, server: ModelServer) -> None:
    environ = {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url("401"),
        "OPENAI_API_KEY": "sk-x",
        "OPENAI_BASE_URL": server.url("404", "/v1"),
        "OLLAMA_BASE_URL": "http://127.0.0.1:9/v1",
    }
    async with terminal_knowing(tmp_path, **environ) as terminal:
        refused = await run(terminal, "anthropic")
        unknown = await run(terminal, "openai", "-m", "gpt-nobody")
        away = await run(terminal, "ollama", "-m", "llama")
        unnamed = await run(terminal, "ollama")
        without = await run(terminal, "groq")
        nobody = await run(terminal, "nobody")
        local = await run(terminal, "vllm", "-m", "llama")
        whose = await run(terminal, "-m", "some-model")
    assert [each.returncode for each in (refused, unknown, away, unnamed, without)] == [1, 1, 1, 1, 1]
    assert "401 invalid key (check the key in ANTHROPIC_API_KEY)" in refused.stdout
    assert "openai/gpt-nobody: 404 model: no such model (check the model's name)" in unknown.stdout
    assert "127.0.0.1:9 cannot be reached" in away.stdout
    assert "not tried" in unnamed.stdout
    assert "-m MODEL" in unnamed.stdout
    assert "there is no key (agent-worker key set groq)" in without.stdout
    assert "127.0.0.1:8000 cannot be reached" in local.stdout, "no variable is needed for what runs on this machine"
    assert (nobody.returncode, whose.returncode) == (2, 2)
    assert "there is no provider nobody" in nobody.stderr
    assert "agent-worker providers anthropic --test -m some-model" in whose.stderr


def test_a_program_that_cannot_be_tried_with_this_model_does_not_hide_the_others(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "opencode").write_text("#!/bin/sh\necho 9.9.9\n")
    (programs / "opencode").chmod(0o755)
    with served(tmp_path, {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}) as daemon:
        done = Terminal(daemon).run("backends", "opencode", "opencode", "--test", "-m", "ok")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("opencode")]
    assert len(rows) == 2, "it went on after the first"
    assert all("does not work: model 'ok' does not name its provider" in row for row in rows)
