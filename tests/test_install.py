"""Installing, in the ways the README names: each into a fresh place, and then used there as a newcomer would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.release import build_into

from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent
#: Tools of development, none of which somebody who only tries the demo should wait for.
TOOLS = {"mypy", "playwright", "pytest", "ruff", "hypothesis", "openai", "anthropic", "numpy"}

pytestmark = pytest.mark.programs


def done(*command: str, cwd: Path, **env: str) -> str:
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VIRTUAL_ENV", "UV_RUN", "UV_PROJECT", "AGENT_WORKER_")) and not name.endswith("_KEY")
    }
    ran = subprocess.run(
        command, cwd=cwd, env=outside | env, capture_output=True, text=True, timeout=PATIENCE * 5, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has who cloned the project: the files that git knows, as they are now."""
    place = tmp_path_factory.mktemp("checkout")
    for name in done("git", "ls-files", cwd=ROOT).splitlines():
        if (ROOT / name).is_file() and name.startswith(("src/", "pyproject", "README", "LICENSE")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    return place


def with_uv_tool(checkout: Path, place: Path) -> Path:
    env = {"UV_TOOL_DIR": str(place / "tools"), "UV_TOOL_BIN_DIR": str(place / "bin")}
    done("uv", "tool", "install", "--quiet", "--python", sys.executable, str(checkout), cwd=place, **env)
    return place / "bin" / "agent-worker"


def with_pipx(checkout: Path, place: Path) -> Path:
    env = {"PIPX_HOME": str(place / "pipx"), "PIPX_BIN_DIR": str(place / "bin"), "PIPX_MAN_DIR": str(place / "man")}
    pipx = ("uv", "tool", "run", "--quiet", "--python", sys.executable, "pipx", "install", "--backend", "uv")
    done(*pipx, "--python", sys.executable, str(checkout), cwd=place, **env)
    return place / "bin" / "agent-worker"


def with_pip(checkout: Path, place: Path) -> Path:
    wheel = build_into(place / "dist", checkout)
    done(sys.executable, "-m", "venv", str(place / "environment"), cwd=place)
    pip = (str(place / "environment" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input")
    done(*pip, "-c", str(ROOT / "constraints.txt"), str(wheel), cwd=place, PIP_DISABLE_PIP_VERSION_CHECK="1")
    return place / "environment" / "bin" / "agent-worker"


@pytest.mark.parametrize("install", [with_uv_tool, with_pipx, with_pip])
def test_after_installing_the_last_lines_of_the_demo_work_as_typed(
    install: Callable[[Path, Path], Path], checkout: Path, tmp_path: Path
) -> None:
    command = install(checkout, tmp_path)
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "AGENT_WORKER_PORT": "0"}
    found = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    told = done(str(command), "demo", cwd=tmp_path, **home, **found)
    assert "tool install" not in told
    _, _, last = told.partition("Next, in a directory of your own:\n")
    typed = [line.split("  ")[1].strip() for line in last.splitlines()]
    assert typed == ["agent-worker init", "agent-worker run review"]
    project = tmp_path / "project"
    project.mkdir()
    try:
        for line in typed:
            done("sh", "-c", line, cwd=project, **home, **found)
    finally:
        done(str(command), "stop", "--all", cwd=project, **home)


def test_the_demo_line_from_a_checkout_installs_no_tools_of_development(checkout: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": without_ours()}
    told = done("uv", "run", "--quiet", "--python", sys.executable, "agent-worker", "demo", cwd=checkout, **home)
    assert f"  uv tool install {checkout}\n" in told
    listed = done("uv", "pip", "list", "--quiet", "--format", "freeze", cwd=checkout, **home).lower().splitlines()
    assert not TOOLS & {line.partition("==")[0] for line in listed}
    assert len(listed) < 60


def without_ours() -> str:
    """The PATH of somebody who has not installed us."""
    folders = [each for each in os.get_exec_path() if not (Path(each) / "agent-worker").exists()]
    return os.pathsep.join(folders)
