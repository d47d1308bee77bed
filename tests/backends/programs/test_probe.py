"""`backends --test`: what is said of a program is what it did here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.backends.programs.world import KEY, World, call, has_result, model_api, needs_program, words
from tests.fakes.model_protocols import Answer, Json
from tests.fakes.model_server import Step
from tests.needs import NPM
from tests.patience import PATIENCE

PROGRAMS = [pytest.param(name, marks=needs_program(name)) for name in ("claude", "codex")]  # the others take 10 s each


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The keys are in the daemon's environment, as on a user's machine."""
    tmp = tmp_path_factory.mktemp("probe")
    (tmp / "project").mkdir()
    (tmp / "tmp").mkdir()
    with model_api() as model:
        path = os.pathsep.join([str(NPM / ".bin"), os.environ["PATH"]])
        given = {"PATH": path, "HOME": str(tmp), "TMPDIR": str(tmp / "tmp")}
        given |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url("think")}
        given |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.url("think", "/v1")}
        made = World(tmp / "home", tmp / "project", model, given)
        made.begin()
        yield made
        made.kill()


def obedient(body: Json) -> Step:
    known = re.findall(r"ready [0-9a-f]{8}", words(body))
    if known:
        return str(known[-1])
    if has_result(body):
        return "I was told nothing."
    return Answer("", (call(body, "echo", word="ready"),))


def command(there: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(there.home)}
    line = [sys.executable, "-m", "agent_worker.cli", "backends", *arguments]
    return subprocess.run(line, cwd=there.project, env=env, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_tried_and_the_result_is_remembered(there: World, program: str) -> None:
    there.model.mind = obedient
    done = command(there, program, "--test", "--json", "--model", "fake-model")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    seen = told["tested"]["seen"]
    assert (seen["works"], seen["tools"], seen["resumes"], seen["tokens"]) == (True, True, True, True), seen
    assert told["tested"]["version"] == told["version"] != ""
    shown = command(there, program).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith(program))
    assert "tools" in line
    assert "resumes" in line


@pytest.mark.parametrize("program", PROGRAMS[:1])
def test_a_program_that_does_not_do_it_is_told_with_the_reason(there: World, program: str) -> None:
    there.model.mind = lambda body: "no"
    (told,) = json.loads(command(there, program, "--test", "--json", "--model", "fake-model").stdout)
    assert told["tested"]["seen"]["works"] is False
    assert "did not call the tool" in told["tested"]["seen"]["reason"]


def test_what_is_not_a_backend_is_refused(there: World) -> None:
    done = command(there, "clod", "--test")
    assert done.returncode == 2
    assert "there is no backend clod" in done.stderr
