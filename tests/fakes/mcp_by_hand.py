"""An MCP server in plain JSON lines: it starts at once, and does what servers should not do. Needs no library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("pid", "environment", "die", "bequeath", "deafen", "hang", "spawn", "babble", "huge", "send")


def call(tool: str) -> str | None:
    """None is no answer."""
    match tool:
        case "pid":
            return str(os.getpid())
        case "environment":
            return json.dumps(dict(os.environ))
        case "die":
            print("out of cheese", file=sys.stderr, flush=True)
            os._exit(3)
        case "bequeath":  # a child of its keeps its pipes open
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            os._exit(4)
        case "deafen":
            os.close(1)
            time.sleep(1000)
        case "spawn":
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            Path("grandchild").write_text(str(child.pid))
            return str(child.pid)
        case "babble":
            print("a line that is no message\n{}\n[1, 2]", flush=True)
            return "done"
        case "send":
            return "taken over"
        case "huge":
            return "x" * (9 * 1024 * 1024)
    return None


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            version, who = params["protocolVersion"], {"name": "by hand", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]}
        case "tools/call" if (text := call(params["name"])) is not None:
            return {"content": [{"type": "text", "text": text}]}
    return None


def main() -> None:
    if sys.argv[1:] == ["silent"]:
        sys.stdin.read()
    if sys.argv[1:] == ["broken"]:
        sys.exit("there is no configuration")
    Path("pid").write_text(str(os.getpid()))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "server/discover":
            print(json.dumps({**reply, "error": {"code": -32601, "message": "unknown"}}), flush=True)
        elif (answer := result(asked["method"], asked.get("params", {}))) is not None:
            print(json.dumps({**reply, "result": answer}), flush=True)
    if sys.argv[1:] == ["stubborn"]:  # goes on when nobody is there any more
        time.sleep(1000)


if __name__ == "__main__":
    main()
