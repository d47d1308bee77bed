"""Set-up commands: in order, each with its limits, and nothing runs after one that failed."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from agent_worker.core.errors import Refused
from agent_worker.definitions.workflow import SetupStep
from agent_worker.workflows import setup
from agent_worker.workflows.setup import run_setup


def steps(*commands: str | tuple[str, str]) -> tuple[SetupStep, ...]:
    pairs = (command if isinstance(command, tuple) else (command, None) for command in commands)
    return tuple(SetupStep.model_validate({"shell": shell, "as": name}) for shell, name in pairs)


async def test_commands_run_in_order_in_the_projects_directory_and_see_what_earlier_ones_printed(
    tmp_path: Path,
) -> None:
    found = await run_setup(
        steps("echo one > order", ("pwd", "where"), ("echo ${{ where }}; cat order; echo $WHERE", "all")),
        {},
        root=tmp_path,
    )
    assert found == {"where": str(tmp_path), "all": f"{tmp_path}\none\n{tmp_path}"}


async def test_values_are_variables_and_never_part_of_the_command(tmp_path: Path) -> None:
    nasty = "$(touch pwned); `touch pwned` \"'\n&& touch pwned"
    values = {"params.target": nasty, "workflow.tag": "main"}
    found = await run_setup(
        steps(("printf %s ${{ params.target }}", "a"), ('printf %s "$PARAMS_TARGET"', "b")), values, root=tmp_path
    )
    assert found == {"a": nasty, "b": nasty}
    assert not (tmp_path / "pwned").exists()


async def test_one_that_fails_stops_the_start_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"(?s)exit 3.*what went wrong") as error:
        await run_setup(steps("echo what went wrong >&2; exit 3", "touch later"), {}, root=tmp_path)
    assert error.value.hint
    assert not (tmp_path / "later").exists()


async def test_Y17_one_that_takes_too_long_is_stopped_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "COMMAND_SECONDS", 0.5)
    with pytest.raises(Refused, match="took longer"):
        await run_setup(steps("sleep 61234 & sleep 61234"), {}, root=tmp_path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61234"]]


async def test_Y17_what_one_leaves_running_ends_with_it(tmp_path: Path) -> None:
    await run_setup(steps("sleep 61235 >/dev/null 2>&1 &"), {}, root=tmp_path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61235"]]


async def test_Y17_too_much_output_is_cut_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "OUTPUT_LIMIT", 4096)
    found = await run_setup(steps(("yes | head -c 1000000", "much")), {}, root=tmp_path)
    assert len(found["much"]) < 5000
    assert found["much"].endswith("[cut at 4 KiB]")


async def test_N5_the_daemons_secrets_are_not_given_to_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    monkeypatch.setenv("MY_OWN_THING", "canary")
    found = await run_setup(steps(("env", "seen")), {}, root=tmp_path)
    assert "canary" not in found["seen"]
