"""One answer, said in the four protocols that model APIs speak: as a stream of events, as one body, as an error.

Knows no network; model_server.py sends what is made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call. Arguments given as text are sent as they are, broken or not."""

    tool: str
    arguments: Json | str
    id: str = ""
    namespace: str = ""  #: of the Responses protocol, which has tools in groups

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str = ""
    calls: tuple[Ask, ...] = ()
    usage: tuple[int, int] | None = (100, 20)  #: input, output; None leaves it out
    cut: bool = False  #: by the limit of tokens

    def id_of(self, index: int) -> str:
        return self.calls[index].id or f"call_{index}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as an HTTP answer. `kind` is the provider's own word for it."""

    status: int
    kind: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


class Anthropic:
    """POST /v1/messages"""

    overflow = Refusal(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")
    quota = Refusal(400, "invalid_request_error", "Your credit balance is too low to access the API.")

    def events(self, answer: Answer, model: str) -> Iterator[tuple[str, Json]]:
        message = self._message(answer, model) | {"content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": message}
        blocks = ([{"type": "text", "text": ""}] if answer.text else []) + self._calls(answer)
        for index, block in enumerate(blocks):
            start: Json = block | ({"input": {}} if block["type"] == "tool_use" else {})
            yield (
                "content_block_start",
                {"type": "content_block_start", "index": index, "content_block": start},
            )
            for delta in self._deltas(answer, index, block):
                yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        usage = {"output_tokens": answer.usage[1]} if answer.usage else {"output_tokens": 0}
        delta = {"stop_reason": self._stop(answer), "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
        yield "message_stop", {"type": "message_stop"}

    def body(self, answer: Answer, model: str) -> Json:
        text = [{"type": "text", "text": answer.text}] if answer.text else []
        return self._message(answer, model) | {"content": text + self._calls(answer)}

    def error(self, refusal: Refusal) -> Json:
        return {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        return [(t["name"], t.get("input_schema", {})) for t in request.get("tools", [])]

    def has_result(self, request: Json) -> bool:
        last = (request.get("messages") or [{}])[-1].get("content")
        return isinstance(last, list) and any(block.get("type") == "tool_result" for block in last)

    def _message(self, answer: Answer, model: str) -> Json:
        read, written = answer.usage or (0, 0)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_reason": self._stop(answer),
            "stop_sequence": None,
            "usage": {"input_tokens": read, "output_tokens": written},
        }

    def _calls(self, answer: Answer) -> list[Json]:
        return [
            {
                "type": "tool_use",
                "id": answer.id_of(i),
                "name": call.tool,
                "input": call.arguments if isinstance(call.arguments, dict) else {},
            }
            for i, call in enumerate(answer.calls)
        ]

    def _deltas(self, answer: Answer, index: int, block: Json) -> Iterator[Json]:
        if block["type"] == "text":
            for piece in pieces(answer.text):
                yield {"type": "text_delta", "text": piece}
        else:
            call = answer.calls[index - (1 if answer.text else 0)]
            for piece in pieces(call.text):
                yield {"type": "input_json_delta", "partial_json": piece}

    def _stop(self, answer: Answer) -> str:
        return "max_tokens" if answer.cut else "tool_use" if answer.calls else "end_turn"


class Chat:
    """POST /v1/chat/completions"""

    overflow = Refusal(400, "context_length_exceeded", "This model's maximum context length is 128000 tokens.")
    quota = Refusal(429, "insufficient_quota", "You exceeded your current quota.")

    def events(self, answer: Answer, model: str) -> Iterator[tuple[str, Json]]:
        yield "", self._chunk(model, {"role": "assistant", "content": ""})
        for piece in pieces(answer.text):
            yield "", self._chunk(model, {"content": piece})
        for index, call in enumerate(answer.calls):
            start = {"index": index, "id": answer.id_of(index), "type": "function"}
            yield (
                "",
                self._chunk(model, {"tool_calls": [start | {"function": {"name": call.tool, "arguments": ""}}]}),
            )
            for piece in pieces(call.text):
                part = {"index": index, "function": {"arguments": piece}}
                yield "", self._chunk(model, {"tool_calls": [part]})
        yield "", self._chunk(model, {}, self._stop(answer))
        if answer.usage:
            yield "", self._chunk(model, None) | {"usage": self._usage(answer)}

    def body(self, answer: Answer, model: str) -> Json:
        calls = [
            {
                "id": answer.id_of(i),
                "type": "function",
                "function": {"name": call.tool, "arguments": call.text},
            }
            for i, call in enumerate(answer.calls)
        ]
        message = {"role": "assistant", "content": answer.text or None} | ({"tool_calls": calls} if calls else {})
        choice = {"index": 0, "message": message, "finish_reason": self._stop(answer)}
        usage = {"usage": self._usage(answer)} if answer.usage else {}
        return {"id": "chat_1", "object": "chat.completion", "created": 1, "model": model} | (
            {"choices": [choice]} | usage
        )

    def error(self, refusal: Refusal) -> Json:
        return {"error": {"message": refusal.message, "type": refusal.kind, "code": refusal.kind}}

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        functions = [t["function"] for t in request.get("tools", []) if "function" in t]
        return [(f["name"], f.get("parameters", {})) for f in functions]

    def has_result(self, request: Json) -> bool:
        return bool((request.get("messages") or [{}])[-1].get("role") == "tool")

    def _chunk(self, model: str, delta: Json | None, stop: str | None = None) -> Json:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": stop}]
        return {
            "id": "chat_1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "choices": choices,
        }

    def _usage(self, answer: Answer) -> Json:
        read, written = answer.usage or (0, 0)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _stop(self, answer: Answer) -> str:
        return "length" if answer.cut else "tool_calls" if answer.calls else "stop"


class Responses(Chat):
    """POST /v1/responses"""

    def events(self, answer: Answer, model: str) -> Iterator[tuple[str, Json]]:
        started = self._response(answer, model, "in_progress") | {"output": [], "usage": None}
        for name, event in self._numbered(answer, model, started):
            yield name, {"type": name} | event

    def body(self, answer: Answer, model: str) -> Json:
        return self._response(answer, model, "incomplete" if answer.cut else "completed")

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        offered = [t for t in request.get("tools", []) if t.get("type") == "function"]
        return [(t["name"], t.get("parameters", {})) for t in offered]

    def has_result(self, request: Json) -> bool:
        said = request.get("input")
        return isinstance(said, list) and bool(said) and said[-1].get("type") == "function_call_output"

    def _numbered(self, answer: Answer, model: str, started: Json) -> Iterator[tuple[str, Json]]:
        plain = self._plain(answer, model, started)
        for number, (name, event) in enumerate(plain):
            yield name, event | {"sequence_number": number}

    def _plain(self, answer: Answer, model: str, started: Json) -> Iterator[tuple[str, Json]]:
        yield "response.created", {"response": started}
        for index, item in enumerate(self._items(answer)):
            at = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                yield "response.output_item.added", {"output_index": index, "item": item | {"content": []}}
                at |= {"content_index": 0}
                empty = {"type": "output_text", "text": "", "annotations": []}
                yield "response.content_part.added", at | {"part": empty}
                for piece in pieces(answer.text):
                    yield "response.output_text.delta", at | {"delta": piece, "logprobs": []}
                yield "response.output_text.done", at | {"text": answer.text, "logprobs": []}
            else:
                yield "response.output_item.added", {"output_index": index, "item": item | {"arguments": ""}}
                for piece in pieces(item["arguments"]):
                    yield "response.function_call_arguments.delta", at | {"delta": piece}
                yield "response.function_call_arguments.done", at | {"arguments": item["arguments"]}
            yield "response.output_item.done", {"output_index": index, "item": item}
        end = "response.incomplete" if answer.cut else "response.completed"
        yield end, {"response": self.body(answer, model)}

    def _items(self, answer: Answer) -> list[Json]:
        said = {"type": "output_text", "text": answer.text, "annotations": []}
        message = {"id": "item_m", "type": "message", "role": "assistant", "status": "completed"}
        items: list[Json] = [message | {"content": [said]}] if answer.text else []
        return items + [
            {
                "id": f"item_{i}",
                "type": "function_call",
                "call_id": answer.id_of(i),
                "name": call.tool,
                "arguments": call.text,
                "status": "completed",
            }
            | ({"namespace": call.namespace} if call.namespace else {})
            for i, call in enumerate(answer.calls)
        ]

    def _response(self, answer: Answer, model: str, status: str) -> Json:
        read, written = answer.usage or (0, 0)
        usage = {
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": model,
            "status": status,
            "output": self._items(answer),
            "usage": usage if answer.usage else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "error": None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }


class Gemini:
    """POST /v1beta/models/MODEL:generateContent, or :streamGenerateContent"""

    overflow = Refusal(400, "INVALID_ARGUMENT", "The input token count (2000000) exceeds the maximum (1048576).")
    quota = Refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.")
    _STATUS: ClassVar[dict[int, str]] = {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }

    def events(self, answer: Answer, model: str) -> Iterator[tuple[str, Json]]:
        for piece in pieces(answer.text):
            yield "", self._response(model, [{"text": piece}])
        usage = self._usage(answer) if answer.usage else {}
        yield "", self._response(model, self._calls(answer) or [{"text": ""}], stop=self._stop(answer)) | usage

    def body(self, answer: Answer, model: str) -> Json:
        said = [{"text": answer.text}] if answer.text else []
        usage = self._usage(answer) if answer.usage else {}
        return self._response(model, [*said, *self._calls(answer)], stop=self._stop(answer)) | usage

    def error(self, refusal: Refusal) -> Json:
        status = self._STATUS.get(refusal.status, "INTERNAL" if refusal.status >= 500 else "INVALID_ARGUMENT")
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        declared = [f for tool in request.get("tools", []) for f in tool.get("functionDeclarations", [])]
        return [(f["name"], f.get("parametersJsonSchema") or f.get("parameters", {})) for f in declared]

    def has_result(self, request: Json) -> bool:
        parts = (request.get("contents") or [{}])[-1].get("parts", [])
        return any("functionResponse" in part for part in parts)

    def _calls(self, answer: Answer) -> list[Json]:
        return [{"functionCall": {"name": call.tool, "args": json.loads(call.text)}} for call in answer.calls]

    def _response(self, model: str, parts: list[Json], *, stop: str | None = None) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        return {
            "candidates": [candidate | ({"finishReason": stop} if stop else {})],
            "modelVersion": model,
            "responseId": "response_1",
        }

    def _usage(self, answer: Answer) -> Json:
        read, written = answer.usage or (0, 0)
        counts = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
        return {"usageMetadata": counts}

    def _stop(self, answer: Answer) -> str:
        return "MAX_TOKENS" if answer.cut else "STOP"


Protocol = Anthropic | Chat | Responses | Gemini


def pieces(text: str, size: int = 12) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def example(schema: Json) -> Any:
    """Arguments that a tool's schema accepts."""
    if "enum" in schema:
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: example(properties.get(name, {})) for name in schema.get("required", [])}
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return []
        case _:
            return "hello"
