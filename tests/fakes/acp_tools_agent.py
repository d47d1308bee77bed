"""A program that speaks ACP and uses the tools it is offered, each in its way: `acp_tools_agent.py HOW`.

forgets: takes servers over HTTP and does not announce it · stdio: takes only commands, and ignores others · refuses:
answers a server over HTTP with an error, and takes commands. It says in the channel how it was offered what it has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from typing import Any

(HOW,) = sys.argv[1:]
Json = dict[str, Any]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
GREETING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


class OverHttp:
    def __init__(self, server: Json) -> None:
        self._url = server["url"]
        self._headers = {each["name"]: each["value"] for each in server["headers"]}

    def ask(self, message: Json) -> Json:
        kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        request = urllib.request.Request(self._url, json.dumps(message).encode(), self._headers | kinds)
        with urllib.request.urlopen(request) as answer:
            found: Json = json.loads(answer.read())
        return found


class ByProcess:
    def __init__(self, server: Json) -> None:
        env = os.environ | {each["name"]: each["value"] for each in server["env"]}
        command = [server["command"], *server["args"]]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": GREETING})
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, message: Json) -> Json:
        self._write(message)
        assert self._process.stdout
        found: Json = json.loads(self._process.stdout.readline())
        return found

    def _write(self, message: Json) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def taken(servers: list[Json]) -> OverHttp | ByProcess | None:
    for server in servers:
        if "command" in server and HOW != "forgets":
            return ByProcess(server)
        if "url" in server and HOW == "forgets":
            return OverHttp(server)
    return None


def main() -> None:
    tools: OverHttp | ByProcess | None = None
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
            case "session/new" | "session/load":
                servers = message["params"]["mcpServers"]
                if HOW == "refuses" and any("url" in server for server in servers):
                    send(id=message["id"], error={"code": -32602, "message": "Invalid params"})
                    continue
                if tools := taken(servers):
                    tools.ask(LIST)
                send(id=message["id"], result={"sessionId": "s-1"})
            case "session/prompt":
                assert tools is not None, "a program without tools has nothing to do here"
                call = {"name": "my_status_set", "arguments": {"status": type(tools).__name__}}
                tools.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
                said = {"type": "text", "text": f"I have my tools: {type(tools).__name__}"}
                update = {"sessionUpdate": "agent_message_chunk", "content": said}
                send(method="session/update", params={"sessionId": "s-1", "update": update})
                send(id=message["id"], result={"stopReason": "end_turn"})
            case _ if "id" in message:
                send(id=message["id"], result={})


if __name__ == "__main__":
    main()
