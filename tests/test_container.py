"""The Dockerfile, tried without Docker: its instructions name what exists, and what it runs works for an ordinary user.

No image is built: there is no Docker where the tests run, and no registry to take the base image from.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_worker.client.discovery import home_directory
from tests.patience import PATIENCE, eventually

ROOT = Path(__file__).parent.parent
SOME_USER = 12345

pytestmark = pytest.mark.programs


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def said(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def test_its_instructions_are_in_order_and_name_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    order = [word for word, _ in instructions()]
    assert order[0] == "FROM"
    base, _, tag = said("FROM")[0].partition(":")
    assert (base, tag.endswith("-slim")) == ("python", True), "a tag that says which Python"
    for each in said("COPY"):
        *files, _ = each.split()
        assert all((ROOT / name).exists() for name in files), each
    assert order.index("USER") > max(n for n, word in enumerate(order) if word == "RUN"), (
        "installed by root, run by none"
    )
    (user,) = said("USER")
    assert f"useradd --create-home {user}" in said("RUN")[0]
    monkeypatch.delenv("AGENT_WORKER_HOME", raising=False)
    monkeypatch.setenv("HOME", f"/home/{user}")
    assert said("VOLUME") == [str(home_directory())], "everything that lasts is in the volume"
    assert f"install -d -m 0700 -o {user} -g {user} {home_directory()}" in said("RUN")[0]
    assert json.loads(said("CMD")[0])[0] == "agent-worker"
    assert json.loads(said("HEALTHCHECK")[0].partition("CMD ")[2])[0] == "agent-worker"


def test_every_package_of_the_system_is_asked_for_without_what_it_recommends() -> None:
    (install,) = [part for part in said("RUN")[0].split("&&") if "apt-get install" in part]
    assert "--no-install-recommends" in install
    assert {"bubblewrap", "git", "tini"} <= set(install.split())
    assert "rm -rf /var/lib/apt/lists/*" in said("RUN")[0]


def python_for_all() -> str:
    """An interpreter that a user other than root may start."""
    if os.geteuid() != 0:
        return sys.executable
    there = [path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()]
    return there[0] if there else sys.executable


@pytest.fixture
def place() -> Iterator[Path]:
    """A place that every user may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def ran(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    kept = ("PATH", "LANG")
    known = {
        name: value for name, value in os.environ.items() if name in kept or name.startswith(("PIP_", "UV_", "SSL_"))
    }
    done = subprocess.run(
        command, env=known | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=PATIENCE * 5, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_what_it_runs_works_for_an_ordinary_user(place: Path) -> None:
    source, environment = place / "source", place / "environment"
    source.mkdir()
    for each in said("COPY"):
        *files, to = each.split()
        for name in files:
            there = source / to.removeprefix("/source").lstrip("/")
            shutil.copytree(ROOT / name, there) if (ROOT / name).is_dir() else shutil.copy(ROOT / name, there)
    ran("uv", "venv", "--quiet", "--seed", "--python", python_for_all(), environment)
    (install,) = [rest for rest in said("RUN") if rest.startswith("pip install")]
    pip = shlex.split(install.replace("/source", str(source)))
    ran(environment / "bin" / pip[0], *pip[1:], cwd=place, env={"HOME": str(place)})

    home, project = place / "worker", place / "project"
    for folder in (home, project):
        folder.mkdir(mode=0o755)
    as_user: list[str] = []
    if os.geteuid() == 0 and shutil.which("setpriv"):
        as_user = ["setpriv", f"--reuid={SOME_USER}", f"--regid={SOME_USER}", "--clear-groups", "--"]
        for folder in (home, project):
            os.chown(folder, SOME_USER, SOME_USER)
    env = {"HOME": str(home), "PATH": f"{environment / 'bin'}:/usr/bin:/bin", "AGENT_WORKER_PORT": "0"}
    command, health = json.loads(said("CMD")[0]), json.loads(said("HEALTHCHECK")[0].partition("CMD ")[2])

    def is_healthy() -> bool:
        return (
            subprocess.run([*as_user, *health], env=env, cwd=project, capture_output=True, check=False).returncode == 0
        )

    assert not is_healthy(), "before it runs"
    with subprocess.Popen([*as_user, *command], env=env, cwd=project) as daemon:
        try:
            assert eventually(is_healthy)
            assert (home / ".agent-worker" / "daemon.json").exists()
            assert ran(*as_user, "agent-worker", "ls", env=env, cwd=project)
        finally:
            daemon.send_signal(getattr(signal, said("STOPSIGNAL")[0]))
            assert daemon.wait(PATIENCE) == 0
    assert not is_healthy(), "after it has ended"
