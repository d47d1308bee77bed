"""Hermes Agent is started as it documents: `hermes acp`, with the user's own home and none of our secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.backends.programs.test_acp import TOKEN, OpenDoor

from agent_worker.backends.programs.hermes import INSTALL, Hermes
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.program import Program, ProgramHost
from agent_worker.backends.programs.sessions import Session
from agent_worker.core.errors import Permanent


def job(tmp: Path, environ: dict[str, str], session: str = "") -> ProgramJob:
    project = tmp / "project"
    project.mkdir(exist_ok=True)
    host = ProgramHost(OpenDoor(), tmp / "state", environ)
    program = Program("hermes", "hermione", project, project, host)
    return ProgramJob(program, host.tool_access.open("r"), tmp, "You are H.", "Go.", Session("hermes", session), print)  # type: ignore[union-attr]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hermes").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "hermes").chmod(0o755)
    known = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path / "profile")}
    return known | {"OPENAI_API_KEY": "not for Hermes"}


async def test_it_is_started_with_its_own_home(tmp_path: Path, environ: dict[str, str]) -> None:
    launch = await asyncio.to_thread(Hermes().launch, job(tmp_path, environ))
    assert launch.argv == (str(tmp_path / "bin" / "hermes"), "acp")
    assert launch.env["HERMES_HOME"] == environ["HERMES_HOME"]
    assert "OPENAI_API_KEY" not in launch.env
    assert TOKEN in launch.secrets
    assert launch.prompt == "You are H.\n\nGo."


async def test_in_a_session_it_is_not_told_again_who_it_is(tmp_path: Path, environ: dict[str, str]) -> None:
    assert Hermes().launch(job(tmp_path, environ, "s-1")).prompt == "Go."


async def test_without_it_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(Permanent) as missing:
        Hermes().launch(job(tmp_path, {"PATH": str(tmp_path), "HOME": str(tmp_path)}))
    assert missing.value.hint == INSTALL
