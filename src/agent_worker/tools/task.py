"""Work on files and with a shell, inside the agent's working directory.

`bash` runs in a sandbox or not at all, unless the definition says unsafe. The file tools open nothing outside the
directory, follow no link, and leave control files alone (sandbox.py lists them). Errors are sentences for the model.
Below: processes, files/root.py. Not here: who may use these tools, and approval.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from agent_worker.client.discovery import RUN_VARIABLE
from agent_worker.core.control_files import is_repository
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Refused, Stale
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.definitions.layout import OwnPlaces
from agent_worker.files.paths import is_control, names_in, same_document
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.processes.child import Completed, run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.tools.images import Image, image_in, why_not
from agent_worker.tools.sandbox import NoSandbox, Sandbox, find_sandbox, nested_control, secret_places
from agent_worker.tools.tool import Result, Tool, ToolContext, tool
from agent_worker.work import inbox

SHOWN = 32 * 1024  #: how much of one result the model gets to read
SHOWN_LINE = 200
LISTED = 500
HITS = 150
SEARCHED_FILES = 20_000
SEARCHED_FILE_BYTES = 2 * 1024 * 1024
SEARCHED_BYTES = 256 * 1024 * 1024

_PASSED_OVER = {".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"}
_NAMED = 10  # control files, in what the person is told
_SHARED = "skills"  # in .agents; every other folder there is one agent's own

_UNSAFE = "There is NO sandbox: you act with all the rights of the user. Be careful."
_SANDBOXED = (
    "You can write in the working directory and in /tmp (empty at every call); all else is read-only. Empty"
    " stand-ins such as .vscode or moniro.yaml hold the place of files that no agent may make."
)
_ONLINE = "The network can be reached."
_OFFLINE = "There is no network."

Seconds = Annotated[int, Field(ge=1, le=600)]
Line = Annotated[int, Field(ge=1)]


def why_bash_is_off(*, unsafe: bool) -> str | None:
    """A sentence for whoever gives an agent the tool; None when it will work."""
    match find_sandbox():
        case NoSandbox(reason) if not unsafe:
            return f"bash is off, because there is no sandbox on this machine: {reason}"
        case _:
            return None


def bash_tool(*, unsafe: bool = False, network: bool = False) -> Tool:
    """The shell as one definition wants it: `unsafe` is without any sandbox, and must have been written out."""

    async def bash(context: ToolContext, command: str, seconds: Seconds = 120) -> str:
        """Run a shell command in the working directory and read what it prints (both streams) and how it ended.

        Every call is a new shell; it is stopped after `seconds`, and what it started in the background ends with it.
        """
        argv = ["/bin/bash", "-c", command]
        if unsafe:
            return _told(await _run(argv, context, seconds), seconds)
        sandbox = await asyncio.to_thread(_sandbox)
        places = await asyncio.to_thread(context.places)
        before = await asyncio.to_thread(nested_control, context.cwd)
        around = sandbox.around(
            argv,
            cwd=context.cwd,
            hidden=_folders_of_others(context, places),
            network=network,
            places=places,
            nested=before,
            own_copy=context.own_copy,
        )
        with around as wrapped:
            done = await _run(wrapped, context, seconds)
        after = await asyncio.to_thread(nested_control, context.cwd)
        new = sorted(path for path, sign in after.items() if before.get(path) != sign)
        return _told(done, seconds) + await _reported(context, new)

    reach = _UNSAFE if unsafe else f"{_SANDBOXED} {_ONLINE if network else _OFFLINE}"
    bash.__doc__ = f"{inspect.getdoc(bash)}\n{reach}"
    return tool(personal=True, foreign=True, in_turn=True)(bash)


bash = bash_tool()


@tool(repeatable=True, personal=True, foreign=True)
async def read_file(context: ToolContext, path: str, start: Line = 1, lines: Line = 1000) -> str | Result:
    """Read a text file, or some lines of it: `lines` of them, from line `start` on. A picture is shown to you."""
    return await asyncio.to_thread(lambda: _read(_spot(context, path), start, lines))


@tool(personal=True, in_turn=True)
async def write_file(context: ToolContext, path: str, text: str) -> str:
    """Write a whole file, new or in place of the old one. To change a part of a file, use edit_file."""
    return await asyncio.to_thread(lambda: _write(_spot_to_change(context, path), text))


@tool(personal=True, in_turn=True)
async def edit_file(context: ToolContext, path: str, old: str, new: str) -> str:
    """Replace one piece of a text file. `old` must be there exactly once, letter for letter, spaces included."""
    return await asyncio.to_thread(lambda: _edit(_spot_to_change(context, path), old, new))


@tool(repeatable=True, personal=True, foreign=True)
async def list_files(context: ToolContext, path: str = ".", name: str = "*") -> str:
    """What is in a directory. With a `name` like *.py: all files of that name beneath it, however deep."""
    return await asyncio.to_thread(lambda: _list(_spot(context, path), name))


@tool(repeatable=True, personal=True, foreign=True)
async def search_files(context: ToolContext, text: str, path: str = ".", name: str = "*") -> str:
    """Find the lines that contain this text, exactly as written (no patterns), in the files beneath a directory.

    `name` narrows it to files like *.py. Leaves out .git, node_modules, .venv and files that are not text.
    """
    return await asyncio.to_thread(lambda: _search(_spot(context, path), text, name))


@dataclass(frozen=True, slots=True)
class _Spot:
    """A path the model named, relative to the working directory; '' is that directory."""

    root: Root
    relative: str
    barred: tuple[str, ...]  #: what no path may begin with

    def beneath(self, name: str) -> _Spot:
        return replace(self, relative=f"{self.relative}/{name}" if self.relative else name)

    def is_barred(self) -> bool:
        return _comparable(self.root.path / self.relative).startswith(self.barred)


def _spot(context: ToolContext, path: str) -> _Spot:
    cwd = context.cwd.resolve()
    given = PurePosixPath(path)
    if given.is_absolute():
        if not given.is_relative_to(cwd):
            raise Refused(f"{path} is outside your working directory {cwd}")
        given = given.relative_to(cwd)
    relative = "" if given == PurePosixPath(".") else str(given)
    names_in(relative)
    barred = [*secret_places(Path.home().resolve()), *_folders_of_others(context, context.places())]
    # Resolved too: ~/.aws may be a link to a folder of dotfiles, which is the working directory.
    spot = _Spot(Root(cwd), relative, tuple(_comparable(name) for place in barred for name in (place, place.resolve())))
    if spot.is_barred():
        raise Refused(f"{path} is not for you to read: it holds credentials, or belongs to another agent")
    return spot


def _spot_to_change(context: ToolContext, path: str) -> _Spot:
    spot = _spot(context, path)
    hint = "tell the user what you would change, and why"
    if is_control(names_in(spot.relative)):
        raise Refused(f"{path} controls what other programs run, so no agent may change it", hint=hint)
    if _is_in_repository(spot):
        raise Refused(f"{path} would be part of a repository whose settings Git obeys", hint=hint)
    place = _comparable(spot.root.path / spot.relative)
    ours = context.places()
    if not context.own_copy and place.startswith(tuple(map(_comparable, (*ours.folders, *ours.files)))):
        raise Refused(f"{path} is part of this project's team: its definitions, workspaces and memories", hint=hint)
    return spot


def _is_in_repository(spot: _Spot) -> bool:
    """Whether a folder on the way is a repository without `.git`, or would be one with this file in it."""
    folder = spot.root.path
    for name in names_in(spot.relative):
        with suppress(OSError):
            if is_repository({*os.listdir(folder), name}):
                return True
        folder /= name
    return False


async def _run(argv: list[str], context: ToolContext, seconds: int) -> Completed:
    env = safe_environment(context.env) | {RUN_VARIABLE: context.identity.run}  # what it asks of us counts for that
    return await run_command(argv, cwd=context.cwd, env=env, timeout=seconds, output_cap=SHOWN)


async def _reported(context: ToolContext, new: list[Path]) -> str:
    """Put control files that a command wrote into deeper folders, which could not be prevented, before the person."""
    if not new:
        return ""
    cwd = context.cwd.resolve()
    named = ", ".join(str(path.relative_to(cwd)) for path in new[:_NAMED]) + ("" if len(new) <= _NAMED else " …")
    text = f"a command of {context.identity.name} wrote what makes other programs run something: {named} (in {cwd})"
    await context.database.write(
        inbox.ask,
        "control",
        workspace=context.identity.workspace,
        agent=context.identity.agent,
        ref=named[:500],
        text=text,
        now=context.clock.micros(),
    )
    return f"\n[the user was told that you wrote {named}: such files make other programs run something]"


def _comparable(path: Path) -> str:
    return same_document(f"{path}/")


def _folders_of_others(context: ToolContext, places: OwnPlaces) -> list[Path]:
    """What the other agents of the project own: their folders, and all that lies beside this one's in `.agents`."""
    own = context.home.location().resolve() if context.home else None
    return list(dict.fromkeys((*(home for home in places.homes if home != own), *_beside(context))))


def _beside(context: ToolContext) -> list[Path]:
    if context.home is None or (home := context.home.location()).parent.name != ".agents" or not home.parent.is_dir():
        return []
    spared = {_SHARED, home.name}
    return [path for path in home.parent.resolve().iterdir() if path.is_dir() and path.name not in spared]


def _sandbox() -> Sandbox:
    match find_sandbox():
        case Sandbox() as sandbox:
            return sandbox
        case NoSandbox():
            raise Refused(
                why_bash_is_off(unsafe=False) or "",
                hint="work with the file tools; a person can install bubblewrap, or write unsafe in the definition",
            )


def _told(done: Completed, limit: int) -> str:
    parts = [done.output.replace("\0", "␀").rstrip("\n") or "(no output)"]
    if done.timed_out:
        parts.append(f"[stopped after {limit} s; if it needs longer, ask for more seconds]")
    elif done.exit_code:
        parts.append(f"[exit code {done.exit_code}]")
    return "\n".join(parts)


def _text(spot: _Spot) -> str:
    return _decoded(spot, spot.root.read_bytes(spot.relative))


def _decoded(spot: _Spot, content: bytes) -> str:
    try:
        if b"\0" not in content:
            return content.decode()
    except UnicodeDecodeError:
        pass
    raise Refused(f"{spot.relative} is not a text file ({plural(len(content), 'byte')})")


def _read(spot: _Spot, start: int, count: int) -> str | Result:
    content = spot.root.read_bytes(spot.relative)
    image = image_in(content)
    return _lines(spot, _decoded(spot, content), start, count) if image is None else _picture(spot, image)


def _picture(spot: _Spot, image: Image) -> Result:
    if too_much := why_not(image):
        raise Refused(f"{spot.relative} cannot be shown: {image}, {too_much}")
    return Result(f"[{image}: {spot.relative}]", images=(image,))


def _lines(spot: _Spot, text: str, start: int, count: int) -> str:
    all_lines = text.split("\n")
    if all_lines[-1] == "":
        all_lines.pop()  # the last line's end is no further line
    if not all_lines:
        return "(the file is empty)"
    if start > len(all_lines):
        raise BadInput(f"{spot.relative} has only {plural(len(all_lines), 'line')}")
    chosen: list[str] = []
    left = SHOWN
    for line in all_lines[start - 1 : start - 1 + count]:
        if chosen and left < len(line):
            break
        chosen.append(
            line if len(line) <= left else f"{line[:left]}[… {plural(len(line) - left, 'character')} left out …]"
        )
        left -= len(line) + 1
    last = start - 1 + len(chosen)
    if start > 1 or last < len(all_lines):
        chosen.append(f"[lines {start}–{last} of {len(all_lines):,}]")
    return "\n".join(chosen)


def _write(spot: _Spot, text: str) -> str:
    mode = _mode(spot)
    spot.root.replace(spot.relative, text)
    _set_mode(spot, mode)
    return f"{'wrote' if mode is None else 'replaced'} {spot.relative} ({plural(text.count(chr(10)), 'line')})"


def _edit(spot: _Spot, old: str, new: str) -> str:
    before = _text(spot)
    if "\r\n" in before and old not in before:
        old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (old, new))
    line = _line_of_only(before, old, spot.relative)
    mode = _mode(spot)
    # Swap, not replace: a person may have saved the same file since we read it.
    outcome = spot.root.swap(spot.relative, before.replace(old, new), expected=content_hash(before))
    if isinstance(outcome, Conflict):
        spot.root.remove(outcome.kept)
        raise Stale(f"{spot.relative} was changed by someone else just now", hint="read it again")
    _set_mode(spot, mode)
    return f"changed {spot.relative} at line {line}"


def _line_of_only(text: str, piece: str, file: str) -> int:
    """Where the piece stands; unless it stands there once, a sentence that helps to find it."""
    if not piece:
        raise BadInput("old is empty", hint="to write a whole file, use write_file")
    match text.count(piece):
        case 1:
            return text.count("\n", 0, text.index(piece)) + 1
        case 0:
            raise NotFound(f"{file} does not contain that text", hint=_where_it_nearly_is(text, piece))
        case times:
            lines = ", ".join(map(str, _lines_of(text, piece)))
            raise BadInput(
                f"{file} contains that text {times} times, on lines {lines}",
                hint="include more of the lines around it, until it is there only once",
            )


def _lines_of(text: str, piece: str, *, most: int = 10) -> Iterator[int]:
    at = -1
    for _ in range(most):
        if (at := text.find(piece, at + 1)) < 0:
            return
        yield text.count("\n", 0, at) + 1


def _where_it_nearly_is(text: str, piece: str) -> str:
    """A hint where the text may stand: the usual mistake is in the spaces, or in all but the first line."""
    wanted = next((line.split() for line in piece.split("\n") if line.strip()), None)
    for number, line in enumerate(text.split("\n"), 1):
        if wanted and line.split() == wanted:
            return f"line {number} is nearly its first line; compare spaces and what follows: {line[:SHOWN_LINE]!r}"
    return "read the file again and copy the text exactly"


def _mode(spot: _Spot) -> int | None:
    """The rights of the file that is there, None when there is none."""
    try:
        descriptor = spot.root.open(spot.relative, os.O_RDONLY)
    except NotFound:
        return None
    try:
        return os.fstat(descriptor).st_mode & 0o777
    finally:
        os.close(descriptor)


def _set_mode(spot: _Spot, mode: int | None) -> None:
    """A script stays executable; a new file is as readable as the user's other files."""
    descriptor = spot.root.open(spot.relative, os.O_RDONLY)
    try:
        os.fchmod(descriptor, 0o644 if mode is None else mode)
    finally:
        os.close(descriptor)


def _list(spot: _Spot, name: str) -> str:
    if name == "*":
        entries = spot.root.list(spot.relative)
        found = [f"{entry.name}/" if entry.is_directory else entry.name for entry in entries]
    else:
        found = [file.relative for file, _ in _files(spot, name)]
    if not found:
        return "(nothing)"
    more = [f"[… and {len(found) - LISTED:,} more]"] if len(found) > LISTED else []
    return "\n".join(found[:LISTED] + more)


def _search(spot: _Spot, text: str, name: str) -> str:
    if not text or "\n" in text:
        raise BadInput("text must be one line, and not empty")
    hits = list(islice(_hits(spot, text, name), HITS + 1))
    if len(hits) > HITS:
        hits[HITS:] = ["[… there is more: narrow the search by path or name]"]
    return "\n".join(hits) or "(nothing found)"


def _hits(spot: _Spot, text: str, name: str) -> Iterator[str]:
    budget = SEARCHED_BYTES
    for file, size in _files(spot, name):
        if size > SEARCHED_FILE_BYTES:
            continue
        if (budget := budget - size) < 0:
            yield "[… stopped: too much to look through; narrow the search by path or name]"
            return
        with suppress(AgentWorkerError):  # not text, or gone
            yield from _hits_in(file.relative, _text(file), text)


def _hits_in(file: str, content: str, text: str) -> Iterator[str]:
    if text not in content:
        return
    for number, line in enumerate(content.split("\n"), 1):
        if (at := line.find(text)) >= 0:
            begin = max(at + len(text) - SHOWN_LINE, 0)  # of a long line, the part with the hit
            yield f"{file}:{number}: {line[begin : begin + SHOWN_LINE].strip()}"


def _files(spot: _Spot, name: str) -> Iterator[tuple[_Spot, int]]:
    """Files beneath a directory and their sizes; shallow ones first, a bounded number."""
    left = SEARCHED_FILES
    waiting = [spot]
    for folder in waiting:
        try:
            entries = folder.root.list(folder.relative)
        except Refused:  # not ours to open
            continue
        for entry in entries:
            inner = folder.beneath(entry.name)
            if entry.name in _PASSED_OVER or inner.is_barred():
                continue
            if entry.is_directory:
                waiting.append(inner)
            elif fnmatchcase(entry.name, name):
                yield inner, entry.size
            left -= 1
            if left <= 0:
                return
