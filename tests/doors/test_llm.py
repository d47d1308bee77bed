"""`llm`, from PyPI, talks with an agent and a team: one entry in its own file, one key, and nothing of ours in it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import PYPI, needs
from tests.patience import PATIENCE
from tests.shells.served import Served, served

LLM = PYPI / "bin/llm"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "openai.md"
PORT = "127.0.0.1:5099"

pytestmark = needs("llm, from PyPI", there=LLM.exists())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("llm")) as made:
        yield made


@pytest.fixture(scope="module")
def home(daemon: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the guide says: the models in its own file."""
    home = tmp_path_factory.mktemp("home")
    (entry,) = re.findall(r"```yaml\n# extra-openai-models\.yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert PORT in entry
    entry = entry.replace(PORT, daemon.here)
    entries = [entry, entry.replace('"@review"', '"alice"')]
    (home / "extra-openai-models.yaml").write_text("".join(entries))
    return home


@pytest.fixture(scope="module")
def key(daemon: Served) -> str:
    return str(daemon.do("POST", "/tokens", name="llm")["token"])


def llm(home: Path, *arguments: str) -> str:
    env = os.environ | {"LLM_USER_PATH": str(home)}
    done = subprocess.run([LLM, *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE, cwd=home)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_llm_asks_an_agent_and_a_team(home: Path, key: str) -> None:
    assert llm(home, "--key", key, "-m", "alice", "hello") == "I have looked at this: hello"
    assert llm(home, "--key", key, "-m", "alice", "--no-stream", "hello") == "I have looked at this: hello"
    assert llm(home, "--key", key, "-m", "@review", "@bob is it good?") == "bob: I have looked at this: bob is it good?"


def test_llm_goes_on_with_a_conversation(home: Path, key: str, daemon: Served) -> None:
    llm(home, "--key", key, "-m", "alice", "one")
    llm(home, "--key", key, "-c", "two")
    lines = daemon.client.request("GET", daemon.query("/messages?at=alice"))[1]
    assert [line["text"] for line in lines if line["sender"] == "user"][-2:] == ["one", "two"]
