"""N3: whoever we talk to sends us on to somebody else. Nobody is followed, and no key travels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import eventually
from tests.shells.served import Served, served

from agent_worker.processes.git import Repository

KEY = "canary-of-the-provider"
STATUSES = (301, 302, 303, 307, 308)
AGENTS = {
    "anthropic": "model: anthropic/claude-sonnet-5-5\n",
    "chat": "model: openai-chat/gpt-5\n",
    "responses": "model: openai/gpt-5\n",
}


@dataclass
class Host:
    """Takes down who calls; sends everybody on to `elsewhere`, with the status that stands in the path."""

    elsewhere: str = ""
    status: int = 302
    heard: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def hosting(host: Host) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            host.heard.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(host.status if host.elsewhere else 200)
            if host.elsewhere:
                self.send_header("Location", host.elsewhere + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_HEAD = answer

        def log_message(self, format: str, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    host.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def thief() -> Iterator[Host]:
    with hosting(Host()) as made:
        yield made


@pytest.fixture(scope="module")
def guide(thief: Host) -> Iterator[Host]:
    """Everybody asks here first. The other is another host by its name, and another port."""
    with hosting(Host(elsewhere=thief.url.replace("127.0.0.1", "localhost"))) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, guide: Host) -> Iterator[Served]:
    moved = {"ANTHROPIC_BASE_URL": guide.url, "OPENAI_BASE_URL": f"{guide.url}/v1"}
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    with served(tmp_path_factory.mktemp("outward"), moved | keys) as made:
        prompt = "prompt: { system: You work. }\n"
        for name, model in AGENTS.items():
            (made.project / ".agents" / f"{name}.yaml").write_text(f"backend: sdk\n{model}{prompt}")
        asked = f"backend: mock\nmcp_servers: {{ docs: {{ url: '{guide.url}/mcp' }} }}\n"
        (made.project / ".agents" / "reader.yaml").write_text(asked)
        made.do("POST", "/trust")
        yield made


def ended(daemon: Served, agent: str) -> tuple[Any, ...]:
    """How what an agent is told now ends."""
    told = daemon.do("POST", "/send", to=agent, message="hi")["id"]
    found = eventually(lambda: [run for run in daemon.read(stored.runs, instruction=told) if run["state"] != "running"])
    assert found, daemon.log()[-2000:]
    return found[-1]["state"], found[-1]["reason"]


@pytest.mark.parametrize("agent", AGENTS)
def test_N3_a_model_api_that_redirects_is_not_followed(daemon: Served, guide: Host, thief: Host, agent: str) -> None:
    asked = len(guide.heard)
    state, reason = ended(daemon, agent)
    assert state == "failed"
    assert "redirects to localhost, and redirects are not followed" in reason
    assert KEY not in reason
    assert len(guide.heard) == asked + 1  # and it was not asked again
    assert KEY in str(guide.heard[-1])
    assert thief.heard == []


def test_N3_an_mcp_server_that_redirects_is_not_followed(daemon: Served, guide: Host, thief: Host) -> None:
    state, reason = ended(daemon, "reader")
    assert state == "failed"
    assert "docs" in reason
    assert "not followed" in reason
    assert thief.heard == []


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("agent", ["anthropic", "chat"])
def test_N3_whatever_the_kind_of_redirect(daemon: Served, guide: Host, thief: Host, status: int, agent: str) -> None:
    before = len(daemon.read(stored.runs, state="failed"))
    guide.status = status
    daemon.do("POST", "/send", to=agent, message="again")
    assert eventually(lambda: len(daemon.read(stored.runs, state="failed")) > before)
    assert thief.heard == []


@pytest.mark.parametrize("status", STATUSES)
async def test_N3_git_as_we_start_it_does_not_follow(tmp_path: Path, guide: Host, thief: Host, status: int) -> None:
    """On the wire it may only speak https or to a directory; here it may speak http, which changes nothing else."""
    guide.status = status
    ours = Repository.make(tmp_path / "ours.git")
    done = await ours.run("ls-remote", f"{guide.url}/o/r.git", protocol="http")
    assert done.exit_code != 0
    assert any(asked[0].startswith("/o/r.git") for asked in guide.heard), done
    assert thief.heard == []


def test_the_daemon_is_alive_and_has_made_no_mistake(daemon: Served) -> None:
    assert daemon.alive()
    assert "Traceback" not in daemon.log()
