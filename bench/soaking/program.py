"""A coding program for the soak: speaks ACP, looks at our tools once, has a child of its own, says that all is fine."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def look_at_tools(server: Json) -> int:
    url = urlsplit(server["url"])
    headers = {each["name"]: each["value"] for each in server.get("headers", [])}
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    found = 0
    for number, (method, params) in enumerate([("initialize", HELLO), ("tools/list", {})]):
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        connection.request("POST", url.path, body, headers)
        found = len(json.loads(connection.getresponse().read())["result"].get("tools", ()))
    connection.close()
    return found


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "program", "version": "1"}}


def main() -> None:
    servers: list[Json] = []
    for line in sys.stdin:
        message = json.loads(line)
        result: Json = {}
        match message.get("method"):
            case "initialize":
                can = {"loadSession": True, "mcpCapabilities": {"http": True}}
                result = {"protocolVersion": 1, "agentCapabilities": can}
            case "session/new" | "session/load":
                servers = message["params"].get("mcpServers", [])
                result = {"sessionId": "s-1"}
            case "session/prompt":
                with subprocess.Popen(["sleep", "0.3"], stdout=subprocess.DEVNULL):
                    said = f"Fine, with {sum(map(look_at_tools, servers))} tools."
                content = {"type": "text", "text": said}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                send(method="session/update", params={"sessionId": "s-1", "update": update})
                result = {"stopReason": "end_turn"}
        if "id" in message:
            send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
