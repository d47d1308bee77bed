"""An agent that is on the other side: a coding program that hands the token of its run to the test, and waits.

The daemon starts it as it starts `claude`, in a run like any other. Told «hold <name>», it leaves its token as
`<name>.token` beside itself and works on until `<name>.end` is there, so that a test can do all that an agent could.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import stored
from tests.patience import eventually
from tests.shells.served import Answer, Served

AGENT = "backend: claude\naccess: read\nprompt: { system: You are SYSTEM-CANARY. }\n"
_PROGRAM = """\
import json, os, pathlib, re, sys, time, urllib.request

def say(**event):
    print(json.dumps(event), flush=True)

def list_tools():
    config = json.loads(pathlib.Path(sys.argv[sys.argv.index("--mcp-config") + 1]).read_text())
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    headers = {
        "Authorization": "Bearer " + os.environ["AGENT_WORKER_RUN_TOKEN"],
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    urllib.request.urlopen(urllib.request.Request(config["mcpServers"]["team"]["url"], asked, headers)).read()

here = pathlib.Path(__file__).parent
name = re.findall(r"hold ([a-z0-9]+)", sys.stdin.read())[-1]
say(type="system", subtype="init", session_id="s1")
list_tools()
(here / "unfinished").write_text(os.environ["AGENT_WORKER_RUN_TOKEN"])
(here / "unfinished").rename(here / f"{name}.token")
while not (here / f"{name}.end").exists():
    time.sleep(0.01)
say(type="result", subtype="success", result="NO_REPLY")
"""


def environ_with_insider(tmp: Path) -> dict[str, str]:
    """What a daemon must know to start it."""
    folder = tmp / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -IS\n{_PROGRAM}")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@dataclass(frozen=True)
class Insider:
    """One agent in the middle of one run."""

    daemon: Served
    token: str

    def ask(self, method: str, *headers: str, **params: Any) -> Answer:
        """A request at the MCP door."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = "Accept: application/json, text/event-stream"
        return self.daemon.ask("POST", "/mcp", accept, *headers, body=body, token=self.token)

    def call(self, tool: str, *headers: str, **arguments: Any) -> tuple[bool, str]:
        """Whether it went well, and what was said."""
        answer = self.ask("tools/call", *headers, name=tool, arguments=arguments)
        assert answer.status == 200, answer
        result = answer.json["result"]
        return not result["isError"], result["content"][0]["text"]

    def refused(self, tool: str, *headers: str, **arguments: Any) -> str:
        ok, text = self.call(tool, *headers, **arguments)
        assert not ok, text
        return text

    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.ask("tools/list").json["result"]["tools"]}


@contextmanager
def holding(daemon: Served, to: str, name: str) -> Iterator[Insider]:
    """An agent that was written to at this address and is at work until the block ends."""
    folder = daemon.home.parent / "bin"
    daemon.do("POST", "/send", to=to, message=f"hold {name}")
    token = eventually(lambda: (folder / f"{name}.token").exists())
    try:
        assert token, daemon.log()[-3000:] + json.dumps(daemon.read(stored.runs))
        yield Insider(daemon, (folder / f"{name}.token").read_text())
    finally:
        (folder / f"{name}.end").touch()
