"""The Python API has types all through: two strict checkers know everything in a program that uses it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")
WRONG = """
from agent_worker import Agent, local
with local() as workers:
    answer: int = workers.ask_sync(Agent("ann"), "hello").text
    workers.run_sync(3)
    reveal: str = workers.ask_sync(Agent("ann"), "hello", output=int).output
"""


def checked_by_pyright(file: Path, folder: Path) -> tuple[int, str]:
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps({"include": [str(file)], "typeCheckingMode": "strict"}))
    program = Path(sys.executable).with_name("basedpyright")
    command = [str(program), "-p", str(config), "--pythonpath", sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_basedpyright_knows_every_type(tmp_path: Path) -> None:
    code, said = checked_by_pyright(PROGRAM, tmp_path)
    assert code == 0, said


def test_basedpyright_notices_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    code, said = checked_by_pyright(wrong, tmp_path)
    assert code == 1
    assert "3 errors" in said, said


def test_mypy_is_shown_the_program_with_our_own_source() -> None:
    """`poe types` knows every type in it: here the same would be read a second time, which takes as long."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"]
    assert str(PROGRAM.relative_to(ROOT)) in settings["files"]
