"""Take a picture of a team's trace in Phoenix: a real collector, our own commands, no model.

`uv run poe trace-picture` writes docs/figures/trace.png. It takes a few minutes the first time: Phoenix is half a
gigabyte, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "figures" / "trace.png"
PATIENCE = 300.0  # seconds, for an installation too
SPANS = 10  # of the team below
AGENTS = {
    "alice": [
        {"call": [{"tool": "todo_add", "with": {"text": "ask who has time"}}]},
        {"say": "@bob please look at the code, @carol at the tests"},
    ],
    "bob": [{"say": "@carol the code is fine, is there a test for it?"}],
    "carol": [{"say": "the tests pass"}, {"say": "there is one now"}],
}
WORKFLOW = "kickoff: '@alice please see to the review'\nworkspace: { provider: sqlite }\nagents:\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, port = Path(place), free_port()
        environ = os.environ | {"PHOENIX_WORKING_DIR": place, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port)}
        environ |= {"PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}
        serve = ["uv", "tool", "run", "--from", "arize-phoenix", "phoenix", "serve"]
        phoenix = subprocess.Popen(serve, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: fetched(f"{url}/v1/projects"))
            work(folder, url)
            spans = wait_for(lambda: spans_at(url))
            take(f"{url}/redirects/traces/{spans[0]['context']['trace_id']}")
        finally:
            phoenix.terminate()
            phoenix.wait()


def work(folder: Path, url: str) -> None:
    """A team does its work, by the commands that anybody would type."""
    project = folder / "project"
    for name in (".agents", ".workflows"):
        (project / name).mkdir(parents=True)
    for name, script in AGENTS.items():
        (project / ".agents" / f"{name}.yaml").write_text(f"backend: mock\nscript: {json.dumps(script)}\n")
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in AGENTS)
    (project / ".workflows" / "review.yaml").write_text(WORKFLOW + members)
    environ = os.environ | {"AGENT_WORKER_HOME": str(folder / "home"), "AGENT_WORKER_PORT": "0"}
    environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
    command = [sys.executable, "-m", "agent_worker.cli"]
    subprocess.run([*command, "run", "review"], cwd=project, env=environ, check=True)
    wait_for(lambda: spans_at(url))
    subprocess.run([*command, "stop", "--all"], cwd=project, env=environ, check=True)


def spans_at(url: str) -> list[dict[str, Any]]:
    """All of them, once the last has come: the workflow's."""
    found = fetched(f"{url}/v1/projects/default/spans?limit=100")
    spans: list[dict[str, Any]] = found["data"] if found else []
    whole = len(spans) >= SPANS and any(span["name"].startswith("invoke_workflow") for span in spans)
    return spans if whole else []


def take(address: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium") or None, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(address)
        page.get_by_text("invoke_agent carol").first.wait_for(timeout=PATIENCE * 1000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=str(PICTURE))
        browser.close()
    print(f"{PICTURE.relative_to(ROOT)} is written")


def fetched(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


def wait_for(look: Any) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > until:
            sys.exit("Phoenix could not be had, or did not take the trace")
        time.sleep(0.5)
    return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main()
