"""What is fuzzed (D9p): each target takes any bytes, and complains when a promise about them is broken.

A target raises nothing but AssertionError; what it is about may refuse its input with a sentence, and with nothing
else. `seeds` are where a fuzzer begins, and what fuzzers have found; the normal tests play them. `run.py` plays more.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_worker.backends.programs.claude import ClaudeStream
from agent_worker.backends.programs.codex import CodexStream
from agent_worker.backends.programs.cursor import CursorStream
from agent_worker.backends.programs.runner import event_in
from agent_worker.backends.programs.signals import Calling, Over, ProgramReturned, Said
from agent_worker.core.errors import BadInput, DefinitionError
from agent_worker.core.mentions import find_mentions
from agent_worker.core.remote import parse_remote
from agent_worker.core.text import clean
from agent_worker.definitions.loading import agent_of
from agent_worker.definitions.source import parse_source
from agent_worker.files.jsonl import append_records, read_all, read_last
from agent_worker.files.root import Root
from agent_worker.trust.command_reach import reach_of_shell
from agent_worker.workflows.interpolation import interpolate_marked, shell_command

MEMBERS = ("alice", "bob", "ali", "Carol-2")
CANARY = "canary'\";$(id)`id`\n@bob ${{ a }}"
VISIBLE_FORMAT = frozenset(
    "\u00ad\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)


@dataclass(frozen=True, slots=True)
class Target:
    about: str
    play: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def yaml_loader(data: bytes) -> None:
    """Data that JSON can hold, or problems with their places."""
    try:
        source = parse_source(data.decode(errors="ignore"), file="agent.yaml")
    except DefinitionError as error:
        return _says_where(error)
    json.dumps(source.data, allow_nan=False)
    try:
        agent_of(source, Path("/nowhere/.agents/agent.yaml"), root=Path("/nowhere"))
    except DefinitionError as error:
        _says_where(error)


def _says_where(error: DefinitionError) -> None:
    assert error.problems
    assert all(each.message and each.line >= 1 and each.column >= 1 for each in error.problems)


def interpolation(data: bytes) -> None:
    """What was filled in is exactly what is marked, and in a command a value is never part of the text."""
    text = data.decode(errors="surrogateescape")
    values = {"a": CANARY, "params.target": "", "long-name_1": "x" * 50}
    with suppress(BadInput):
        done = interpolate_marked(text, values)
        assert all(done.text[start:end] in values.values() for start, end in done.inserted)
    with suppress(BadInput):
        command, variables = shell_command(text, values)
        assert CANARY not in command.replace(text, "")
        assert variables.get("A") == CANARY


def shell_reader(data: bytes) -> None:
    """Whatever follows in a command: the script that it begins with is seen, or it can run any file."""
    root = _scratch()
    (root / "a.sh").write_text("echo\n")
    found = reach_of_shell("./a.sh\n" + data.decode(errors="surrogateescape"), root)
    assert "a.sh" in found.files or found.anything


def mentions(data: bytes) -> None:
    """Members only, each once, never the sender; and nobody is called by what was filled in or stands in code."""
    text = data.decode(errors="surrogateescape")
    found = find_mentions(text, MEMBERS, sender="bob")
    assert set(found.names) <= {*MEMBERS} - {"bob"}
    assert len(set(found.names)) == len(found.names)
    assert not find_mentions(text, MEMBERS, sender="bob", quoted=[(0, len(text))]).names
    if not any(mark in text for mark in "`~"):
        assert not find_mentions(f"```\n{text}\n```", MEMBERS, sender="bob").names


def jsonl_repair(data: bytes) -> None:
    """Whatever a crash has left: what could be read still can be, and what comes next is read."""
    root, name = Root(_scratch()), "log.jsonl"
    root.replace(name, data)
    before = read_all(root, name).records
    append_records(root, name, [{"n": 1}, {"n": 2}])
    after = read_all(root, name).records
    assert after[-2:] == ({"n": 1}, {"n": 2})
    assert after[:-2] == before
    assert read_last(root, name, 2).records == ({"n": 1}, {"n": 2})


def stream_parsers(data: bytes) -> None:
    """Whatever a program prints becomes signals made of text, and nothing breaks."""
    events = [event for line in data.split(b"\n") if (event := event_in(line)) is not None]
    for parser in (ClaudeStream(), CodexStream(), CursorStream()):
        for event in events:
            for signal in parser.read(event):
                match signal:
                    case Said(text) | ProgramReturned(_, text) | Calling(_, _, text) | Over(text):
                        assert isinstance(text, str)
                    case _:
                        assert repr(signal)


def terminal(data: bytes) -> None:
    """Nothing is left that moves, colours, reorders or hides, and it can be printed."""
    shown = clean(data.decode(errors="surrogateescape"))
    shown.encode()
    for character in set(shown) - {"\n", "\t"} - VISIBLE_FORMAT:
        assert unicodedata.category(character) not in {"Cc", "Cf", "Zl", "Zp"}, hex(ord(character))
    assert clean(shown) == shown


def remote_ref(data: bytes) -> None:
    """A place that reads back as itself and holds nothing that git could take for something else, or a refusal."""
    try:
        remote = parse_remote(data.decode(errors="surrogateescape"))
    except BadInput:
        return
    assert parse_remote(str(remote)) == remote
    for word in (remote.url, remote.ref, remote.path):
        assert word.isascii()
        assert word.isprintable()
        assert not word.startswith(("-", "/", "ext::"))
        assert ".." not in word.split("/")
        assert not set(word) & set(" :\\*?[~^'\"$`") - {":"}


_folders: list[Path] = []


def _scratch() -> Path:
    """One for the process. `scripts/fuzz.py` says where, and removes it: a fuzzer ends without a word."""
    if not _folders:
        _folders.append(Path(tempfile.mkdtemp(prefix="aw-fuzz-")))
        atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    return _folders[0]


_AGENT = b'model: a/b\nprompt: { system: "hi" }\nlimits: &l { usd_per_day: 5 }\nmax_tokens: 0x10\ntools: [bash, *l]\n'
_CLAUDE = b'{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}'
_RESULT = b'{"type":"result","subtype":"success","model_usage_since_last_result":{"m":{"inputTokens":1,"costUSD":0.1}}}'
_CODEX = b'{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","status":"failed"}}'
_TURN = b'{"type":"turn.completed","usage":{"input_tokens":1}}\n{"type":"turn.failed","error":{"message":"status 429"}}'
_CURSOR = b'{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"shellToolCall":{"args":{}}}}'

TARGETS = {
    "yaml": Target("YAML loader", yaml_loader, (_AGENT, b"a: &a [*a]", b"? [k]\n: v", b"x: 1e999", b"\t- !!str 1")),
    "interpolation": Target(
        "interpolation",
        interpolation,
        (
            b"echo ${{ a }} $${{ ${{params.target}}",
            b"'${{ a }}'",
            b"$(echo ${{ long-name_1 }} # ${{ a }}\n)",
            b"${{",
            b"\\$${{ ${{ a }}",
        ),
    ),
    "shell": Target(
        "reader of shell commands",
        shell_reader,
        (
            b"cd x && ./a.sh; for f in *.sh; do sh $f; done | tee log",
            b'bash <<E\n$(./a.sh)\nE\nF=./a.sh; "$F" < x 0<y',
            b"case $1 in (a) eval `x`;; esac; f() { . ./a.sh; }; f",
            b"find . -exec sh {} \\; | xargs -I{} ./a.sh ${X:-$(y)} $((1+$(z)))",
            b"((((",
            b"'",
        ),
    ),
    "mentions": Target(
        "mention parser",
        mentions,
        (b"@alice, @ali. `@bob` > @all\n```\n@alice\n```\n@user @nobody", b"www.x/@ali ``@ali`", b"~~~\n@alice"),
    ),
    "jsonl": Target(
        "JSONL repair",
        jsonl_repair,
        (b'{"a":1}\n{"b":', b'\0\0{"a":1}\0\0', b'{"a":1}\n\xff\n\n{"b":2}', b"\r\n[1]\n\n", b""),
    ),
    "streams": Target(
        "stream parsers",
        stream_parsers,
        (
            b"\n".join((_CLAUDE, _RESULT)),
            b"\n".join((_CODEX, _TURN)),
            _CURSOR,
            b'{"type":"item.started","item":{"type":[]}}',
            b'{"type":"system","subtype":"init","session_id":1,"mcp_servers":[{"name":"team","status":"failed"}]}',
        ),
    ),
    "terminal": Target(
        "terminal sanitiser",
        terminal,
        (b"\x1b[2J\x1b]52;c;AAAA\x07\r\n\t\x7f", "\u202e\u061c\u2066\ufff9\U000e0041".encode(), b"\xed\xa0\x80"),
    ),
    "remote": Target(
        "grammar of remote places",
        remote_ref,
        (
            b"github:owner/repo@v1.2/path/file.yaml",
            b"git+file:///tmp/x@release/1.2//a",
            b"github:o/r@-x/p",
            b"github:o/r@a/../b",
        ),
    ),
}
