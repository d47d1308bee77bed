"""A program that speaks the Agent Client Protocol by hand, well or badly: `acp_agent.py NOTES BEHAVIOUR [DETAIL …]`.

It notes every message it gets, one JSON line each, and needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NOTES, BEHAVIOUR, *DETAILS = sys.argv[1:]
HISTORY = "This was said long ago."
Json = dict[str, Any]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with Path(NOTES).open("a") as notes:
        notes.write(line)
    message: Json = json.loads(line)
    return message


def update(**what: Any) -> None:
    send(method="session/update", params={"sessionId": "s-1", "update": what})


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, **params: Any) -> Json:
    send(id="mine", method=method, params=params)
    return receive()


def use_tool() -> None:
    update(sessionUpdate="tool_call", toolCallId="c1", title="ls", kind="execute", rawInput={"command": "ls"})
    done = [{"type": "content", "content": {"type": "text", "text": "a.txt"}}]
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", content=done)


def tell_bit_by_bit() -> None:
    """As opencode does: a call is announced before it is known with what it is made."""
    update(sessionUpdate="tool_call", toolCallId="c1", title="bash", kind="execute", status="pending", rawInput={})
    update(sessionUpdate="tool_call", toolCallId="c2", title="team_todo_list", kind="other", status="pending")
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="in_progress", rawInput={"command": "ls"})
    update(sessionUpdate="tool_call_update", toolCallId="c2", status="in_progress")
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="in_progress", title="a better name")
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="failed", rawOutput={"error": "no such thing"})
    update(sessionUpdate="tool_call_update", toolCallId="c2", status="completed")


def edit() -> None:
    """As gemini does: what a call is made with is only in what it shows of it."""
    diff = {"type": "diff", "path": "a.txt", "oldText": "one", "newText": "two"}
    update(sessionUpdate="tool_call", toolCallId="c1", title="WriteFile a.txt", kind="edit", status="in_progress",
           locations=[{"path": "a.txt"}], content=[diff])  # fmt: skip
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", content=[diff])


def permission() -> None:
    kind, *paths = DETAILS
    call = {"toolCallId": "c1", "title": "team_channel_send" if kind == "ours" else "it", "status": "pending"}
    call |= {"kind": "other" if kind == "ours" else kind, "locations": [{"path": path} for path in paths]}
    offered = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", sessionId="s-1", toolCall=call, options=offered)
    say(answer["result"]["outcome"]["optionId"])


def garbage() -> None:
    print("not JSON at all")
    print('[1, 2]\n{"half": \n"text"\n' + "[" * 5000 + "]" * 5000)
    sys.stdout.buffer.write(b"\xff\xfe{}\n")
    send(method="session/update", params=[1])
    send(method="session/update", params={"update": {"sessionUpdate": "from_the_future", "content": 7}})
    update(sessionUpdate="agent_message_chunk", content=None)
    update(sessionUpdate="tool_call", toolCallId=7, title=None, kind=[], rawInput="x")
    send(method="nobody/knows", params={})
    send(id=99, result={"to": "nothing"})
    say("Still here.")


def forever() -> None:
    while True:
        time.sleep(60)


def answer(prompt: Json) -> None:
    result: Json = {"stopReason": "end_turn"}
    match BEHAVIOUR:
        case "well":
            say("Let me see.")
            use_tool()
            say("All is ")
            say("well.")
            result |= {"usage": {"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 7, "totalTokens": 127}}
            update(sessionUpdate="usage_update", used=1, size=9, cost={"amount": 0.25, "currency": "USD"})
        case "error":
            data = {"errorKind": DETAILS[1]} if len(DETAILS) > 1 else None
            send(id=prompt["id"], error={"code": int(DETAILS[0]), "message": "it says no", "data": data})
            return
        case "bit-by-bit":
            tell_bit_by_bit()
            say("Done.")
        case "edit":
            edit()
            say("Done.")
        case "begin":
            update(sessionUpdate="tool_call", toolCallId="c1", title="sleep", kind="execute", rawInput={"s": 1})
            forever()
        case "stop":
            result["stopReason"] = DETAILS[0]
        case "permission":
            permission()
        case "garbage":
            garbage()
        case "files":
            refused = [ask("fs/read_text_file", sessionId="s-1", path="x"), ask("terminal/create", command="sh")]
            say(" ".join(str(each["error"]["code"]) for each in refused))
        case "die":
            say("I ")
            sys.stderr.write("out of cheese\n")
            sys.exit(3)
        case "close":
            away = [sys.executable, "-c", "import time; time.sleep(300)", NOTES]
            subprocess.Popen(away, start_new_session=True, stdout=subprocess.DEVNULL)
            os.close(1)
            forever()
        case "stall":
            say("I ")
            forever()
        case "hang":
            forever()
        case "spend":
            update(sessionUpdate="usage_update", used=1, size=9, cost={"amount": 0.25, "currency": "USD"})
            say("I ")
            if DETAILS:  # dies by itself
                sys.exit(3)
            receive()
            used = {"inputTokens": 100, "outputTokens": 20}
            send(id=prompt["id"], result={"stopReason": "cancelled", "usage": used})
            forever()
        case "cancel":
            say("I ")
            receive()
            forever()
        case _:
            say("Fine.")
    send(id=prompt["id"], result=result)


def main() -> None:
    while True:
        message = receive()
        match message.get("method"):
            case "initialize" if BEHAVIOUR == "mute":
                forever()
            case "initialize":
                can = {"loadSession": BEHAVIOUR != "forgetful", "mcpCapabilities": {"http": True}}
                spoken = 0 if BEHAVIOUR == "old" else 1
                send(id=message["id"], result={"protocolVersion": spoken, "agentCapabilities": can})
            case "session/new" if BEHAVIOUR == "logged-out":
                send(id=message["id"], error={"code": -32000, "message": "Authentication required"})
            case "session/new":
                model = {"id": "m", "category": "model", "options": [{"value": "large"}, {"value": "small"}]}
                send(id=message["id"], result={"sessionId": "s-1", "configOptions": [model]})
            case "session/load":
                say(HISTORY)
                send(id=message["id"], result={})
                say(HISTORY)  # some do not wait until they have told it all
            case "session/prompt":
                answer(message)
            case _ if "id" in message:
                send(id=message["id"], result={})


if __name__ == "__main__":
    main()
