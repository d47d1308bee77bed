"""F: what lies where documents and agents' folders should be, and leads elsewhere. By HTTP and by an agent's tools."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pytest
from tests.attacks.insider import AGENT, Insider, environ_with_insider, holding
from tests.faults.report import LONG
from tests.patience import tries
from tests.shells.served import Served, served

SECRET = "what lies outside"
RACES = 1000 if LONG else 60
ROWS = pytest.mark.sqlite("documents are rows there and their files only copies: test_document_copies.py")


class Door(Protocol):
    """One way to the documents of the room. Each answer is whether it went well, and what was said."""

    def read(self, name: str) -> tuple[bool, str]: ...

    def append(self, name: str, text: str) -> tuple[bool, str]: ...

    def create(self, name: str, text: str) -> tuple[bool, str]: ...

    def names(self) -> list[str]: ...


class Person:
    def __init__(self, daemon: Served, at: str = "@review") -> None:
        self._daemon = daemon
        self._at = at

    def _ask(self, method: str, name: str, **body: Any) -> tuple[bool, str]:
        path = f"/documents/{quote(name)}"
        if method == "GET":
            answer = self._daemon.ask("GET", self._daemon.query(f"{path}?at={self._at}"))
        else:
            body |= {"at": self._at, "project": str(self._daemon.project)}
            answer = self._daemon.ask(method, path, body=body)
        assert answer.status < 500, answer
        return answer.status == 200, answer.body.decode()

    def read(self, name: str) -> tuple[bool, str]:
        return self._ask("GET", name)

    def append(self, name: str, text: str) -> tuple[bool, str]:
        return self._ask("POST", name, text=text)

    def create(self, name: str, text: str) -> tuple[bool, str]:
        return self._ask("PUT", name, text=text)

    def names(self) -> list[str]:
        found: list[str] = self._daemon.client.request("GET", self._daemon.query(f"/documents?at={self._at}"))[1]
        return found


class Agent:
    def __init__(self, insider: Insider) -> None:
        self._insider = insider

    def read(self, name: str) -> tuple[bool, str]:
        return self._insider.call("team_doc_read", name=name)

    def append(self, name: str, text: str) -> tuple[bool, str]:
        return self._insider.call("team_doc_append", name=name, text=text)

    def create(self, name: str, text: str) -> tuple[bool, str]:
        return self._insider.call("team_doc_create", name=name, text=text)

    def names(self) -> list[str]:
        return self._insider.call("team_doc_list")[1].splitlines()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("files")
    with served(tmp, environ_with_insider(tmp), alice=AGENT) as made:
        workspace = "agents: { alice: { ref: alice } }\nworkspace: { dir: room }\n"
        (made.project / ".workflows" / "review.yaml").write_text(workspace)
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="review")
        stored = "agents: { bob: { ref: bob } }\nworkspace: { provider: sqlite }\n"
        (made.project / ".workflows" / "stored.yaml").write_text(stored)
        made.do("POST", "/workflows", workflow="stored")
        yield made


@pytest.fixture(scope="module")
def doors(daemon: Served) -> Iterator[dict[str, Door]]:
    with holding(daemon, "alice@review", "alice") as insider:
        yield {"person": Person(daemon), "agent": Agent(insider)}


@pytest.fixture(params=["person", "agent"])
def tool_access(request: pytest.FixtureRequest, doors: dict[str, Door]) -> Door:
    return doors[request.param]


@pytest.fixture
def documents(daemon: Served) -> Path:
    """Their folder, empty."""
    folder = daemon.project / "room" / "documents"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    return folder


def untouched(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["secret.md"] and (outside / "secret.md").read_text() == SECRET


def attempts(tool_access: Door, name: str) -> list[tuple[bool, str]]:
    return [tool_access.read(name), tool_access.append(name, "evil"), tool_access.create(name, "evil")]


# --- F14: names that programs obey

OBEYED = (
    *(
        ".git/config",
        ".envrc",
        ".claude/settings.json",
        ".mcp.json",
        "sub/.GIT/config",
        "moniro.yaml",
        "HEAD",
        "config",
    ),
    *("Makefile", "package.json", "CLAUDE.md", "conftest.py", "run.sh", "GIT~1/x.md", "-rf.md", "x.md:y"),
)


@pytest.mark.parametrize("name", OBEYED)
def test_F14_no_door_makes_a_document_that_programs_obey(
    tool_access: Door, daemon: Served, documents: Path, name: str
) -> None:
    for ok, text in (tool_access.append(name, "evil"), tool_access.create(name, "evil"), tool_access.read(name)):
        assert not ok
        assert "cannot be the name" in text or "not a path we open" in text
        assert "plans/" in text  # and what to write instead
    stored = Person(daemon, "@stored")
    assert not stored.append(name, "evil")[0]
    assert not list(documents.iterdir())


def test_F14_what_a_person_keeps_beside_the_documents_is_not_shown_to_agents(
    tool_access: Door, documents: Path
) -> None:
    for name in (".git/config", ".env.md", "main.py", "plan.md"):
        (documents / name).parent.mkdir(exist_ok=True)
        (documents / name).write_text("canary")
    assert tool_access.names() == ["plan.md"]
    assert not [name for name in (".git/config", ".env.md", "main.py") if "canary" in tool_access.read(name)[1]]


# --- F3: links


@pytest.mark.parametrize(
    "name", ["link.md", "linked/secret.md", "linked/new.md", "dangling.md", "deep/linked/secret.md"]
)
@ROWS
def test_F3_a_link_leads_nowhere(tool_access: Door, documents: Path, outside: Path, name: str) -> None:
    (documents / "deep").mkdir()
    (documents / "link.md").symlink_to(outside / "secret.md")
    (documents / "linked").symlink_to(outside)
    (documents / "deep" / "linked").symlink_to(outside, target_is_directory=True)
    (documents / "dangling.md").symlink_to(outside / "new.md")
    for ok, text in attempts(tool_access, name):
        assert not ok
        assert SECRET not in text
    assert not [found for found in tool_access.names() if "link" in found or "secret" in found]
    assert untouched(outside)


@ROWS
def test_F3_the_folder_of_the_documents_itself_may_be_no_link(
    tool_access: Door, documents: Path, outside: Path
) -> None:
    documents.rmdir()
    documents.symlink_to(outside)
    try:
        for ok, text in attempts(tool_access, "secret.md"):
            assert not ok
            assert SECRET not in text
        assert untouched(outside)
    finally:
        documents.unlink()


# --- F4: what is swapped while we look


def racing(place: Path, outside: Path, over: threading.Event, swaps: list[int]) -> None:
    """A directory that is a link half of the time, whatever we make in its place meanwhile."""
    link = place.with_name("a-link")
    for number in itertools.count():
        aside = place.with_name(f".aside-{number}")  # nothing of it is a document
        with suppress(OSError):
            link.symlink_to(outside)
            place.rename(aside)
            link.rename(place)
            swaps.append(number)
            place.unlink()
            aside.rename(place)
        link.unlink(missing_ok=True)
        if over.is_set():
            return


@ROWS
def test_F4_a_directory_swapped_for_a_link_lets_nothing_escape(
    tool_access: Door, documents: Path, outside: Path
) -> None:
    plans, over, swaps = documents / "plans", threading.Event(), list[int]()
    plans.mkdir()
    thread = threading.Thread(target=racing, args=(plans, outside, over, swaps), daemon=True)
    thread.start()
    try:
        for number in tries(RACES // 2, enough=lambda: len(swaps) >= RACES):
            assert SECRET not in tool_access.read("plans/secret.md")[1]
            tool_access.append(f"plans/{number % 5}.md", "a line\n")
    finally:
        over.set()
        thread.join()
    assert untouched(outside)


# --- F5


@pytest.mark.parametrize("name", ["../documents-evil/secret.md", "..\\documents-evil\\secret.md", "../documents-evil"])
def test_F5_a_sibling_with_the_same_beginning_is_outside(tool_access: Door, documents: Path, name: str) -> None:
    sibling = documents.with_name("documents-evil")
    sibling.mkdir(exist_ok=True)
    (sibling / "secret.md").write_text(SECRET)
    for ok, text in attempts(tool_access, name):
        assert not ok
        assert SECRET not in text
    assert untouched(sibling)


@pytest.mark.parametrize("name", ["link.md", "linked/secret.md"])
@ROWS
def test_F5_nor_does_a_link_lead_to_such_a_sibling(tool_access: Door, documents: Path, name: str) -> None:
    """Where it really leads begins like the folder of the documents: who compares beginnings lets it through."""
    sibling = documents.with_name("documents-evil")
    sibling.mkdir(exist_ok=True)
    (sibling / "secret.md").write_text(SECRET)
    (documents / "link.md").symlink_to(sibling / "secret.md")
    (documents / "linked").symlink_to(sibling)
    for ok, text in attempts(tool_access, name):
        assert not ok
        assert SECRET not in text
    assert untouched(sibling)


# --- F6: what is no regular file


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def listener(path: Path, outside: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the whole path may be longer than such a name can be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path, outside: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: reading it would not end
    except PermissionError:
        pytest.skip("only root makes devices")


def directory(path: Path, outside: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [pipe, listener, device, directory])
@ROWS
def test_F6_only_files_are_documents_and_nothing_hangs(
    tool_access: Door, documents: Path, outside: Path, make: Callable[[Path, Path], None]
) -> None:
    make(documents / "odd.md", outside)
    assert not any(ok for ok, _ in attempts(tool_access, "odd.md"))  # one that hangs is "still working", which is ok
    assert "odd.md" not in tool_access.names()


@ROWS
def test_F6_a_hard_link_is_not_written_through(tool_access: Door, documents: Path, outside: Path) -> None:
    os.link(outside / "secret.md", documents / "hard.md")
    assert not tool_access.append("hard.md", "evil")[0]
    assert not tool_access.create("hard.md", "evil")[0]
    assert untouched(outside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@ROWS
def test_F6_a_hard_link_to_the_file_of_another_is_not_read(tool_access: Door, documents: Path, outside: Path) -> None:
    os.link(outside / "secret.md", documents / "hard.md")
    os.chown(outside / "secret.md", 12345, 12345)
    assert not any(ok or SECRET in text for ok, text in attempts(tool_access, "hard.md"))
    assert untouched(outside)


# --- F7


SPELLINGS = [("Notes.md", "nOTES.MD"), ("plans/Größe.md", "PLANS/grösse.md")]


@pytest.mark.parametrize(("first", "other"), SPELLINGS)
@ROWS
def test_F7_two_spellings_are_one_document(tool_access: Door, documents: Path, first: str, other: str) -> None:
    one_document(tool_access, first, other)
    assert len([path for path in documents.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(("first", "other"), SPELLINGS)
def test_F7_also_where_there_is_no_disk(daemon: Served, first: str, other: str) -> None:
    one_document(Person(daemon, "@stored"), first, other)


def one_document(tool_access: Door, first: str, other: str) -> None:
    assert tool_access.create(first, "one\n")[0]
    assert "one" in tool_access.read(other)[1]
    assert not tool_access.create(other, "evil")[0]
    assert tool_access.append(other, "two\n")[0]
    assert "two" in tool_access.read(first)[1]
    assert first in tool_access.names()
    assert other not in tool_access.names()


# --- F13


def test_F13_of_an_agent_whose_folder_became_a_link_only_the_link_goes(daemon: Served, outside: Path) -> None:
    for name, target in (("dora", outside), ("emil", outside / "secret.md"), ("fred", outside / "gone")):
        daemon.do("POST", "/agents", name=name, backend="mock")
        folder = daemon.project / ".agents" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.symlink_to(target)
        answer = daemon.ask("DELETE", daemon.query(f"/agents/{name}?files=true"))
        assert answer.status == 200, answer
        assert not folder.is_symlink()
        assert untouched(outside)


def test_F13_what_such_an_agent_writes_does_not_arrive_outside(daemon: Served, outside: Path) -> None:
    daemon.do("POST", "/agents", name="gina", backend="mock")
    shutil.rmtree(daemon.project / ".agents" / "gina", ignore_errors=True)
    (daemon.project / ".agents" / "gina").symlink_to(outside)
    for method, path, body in (
        ("PUT", "/agents/gina/memory", {"key": "a", "value": "b"}),
        ("PUT", "/agents/gina/notes/today", {"text": "b"}),
        ("POST", "/agents/gina/todos", {"text": "b"}),
        ("POST", "/ask", {"agent": "gina", "message": "hello"}),
    ):
        answer = daemon.ask(method, path, body={"project": str(daemon.project)} | body)
        assert answer.status in {200, 409, 422}, (path, answer)
    assert untouched(outside)


def test_F13_a_definition_that_is_a_link_is_removed_as_a_link(daemon: Served, outside: Path) -> None:
    (outside / "secret.md").write_text(SECRET)
    (daemon.project / ".agents" / "hugo.yaml").symlink_to(outside / "secret.md")
    answer = daemon.ask("DELETE", daemon.query("/agents/hugo?files=true"))
    assert answer.status in {200, 404, 422}, answer
    assert untouched(outside)
    (daemon.project / ".agents" / "hugo.yaml").unlink(missing_ok=True)


def test_the_daemon_is_alive(daemon: Served) -> None:
    assert daemon.alive()
