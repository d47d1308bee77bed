"""F3, F6 where documents are rows and their files only copies: whatever lies in their folder, nothing outside of it is
read into the database or written from there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attacks.test_files import RACES, SECRET, Person, attempts, racing, untouched
from tests.patience import tries
from tests.postgresql import Cluster
from tests.shells.served import Served, served

from agent_worker.client.discovery import DATABASE_VARIABLE


@pytest.fixture(scope="module")
def daemon(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("copies"), {DATABASE_VARIABLE: cluster.new_database()}) as made:
        workspace = "agents: { alice: { ref: alice } }\nworkspace: { dir: room }\n"
        (made.project / ".workflows" / "review.yaml").write_text(workspace)
        made.do("POST", "/workflows", workflow="review")
        assert Person(made).create("first.md", "here\n")[0]
        yield made


@pytest.fixture
def documents(daemon: Served) -> Path:
    return daemon.project / "room" / "documents"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all tests: a hard link whose other name is gone is a file like any other."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.md").write_text(SECRET)
    return folder


def link(place: Path, outside: Path) -> str:
    place.with_suffix(".md").symlink_to(outside / "secret.md")
    return f"{place.name}.md"


def dangling(place: Path, outside: Path) -> str:
    place.with_suffix(".md").symlink_to(outside / "new.md")
    return f"{place.name}.md"


def linked_folder(place: Path, outside: Path) -> str:
    place.symlink_to(outside)
    return f"{place.name}/secret.md"


def new_in_linked_folder(place: Path, outside: Path) -> str:
    place.symlink_to(outside)
    return f"{place.name}/new.md"


def hard_link(place: Path, outside: Path) -> str:
    os.link(outside / "secret.md", place.with_suffix(".md"))
    return f"{place.name}.md"


def pipe(place: Path, outside: Path) -> str:
    os.mkfifo(place.with_suffix(".md"))
    return f"{place.name}.md"


def directory(place: Path, outside: Path) -> str:
    place.with_suffix(".md").mkdir()
    return f"{place.name}.md"


def test_F4_a_directory_swapped_for_a_link_lets_nothing_escape(daemon: Served, documents: Path, outside: Path) -> None:
    """First: the links that the others leave here keep this host from writing any document that comes after them."""
    person, over, swaps = Person(daemon), threading.Event(), list[int]()
    assert person.create("plans/0.md", "a line\n")[0]
    thread = threading.Thread(target=racing, args=(documents / "plans", outside, over, swaps), daemon=True)
    thread.start()
    try:
        for _ in tries(RACES // 10, enough=lambda: len(swaps) >= RACES):
            assert SECRET not in person.read("plans/secret.md")[1]
            person.append("plans/0.md", "a line\n")[0] or person.create("plans/0.md", "a line\n")  # it was seen gone
    finally:
        over.set()
        thread.join()
    assert SECRET not in "".join(person.read(each)[1] for each in person.names())
    assert untouched(outside)


ODD = [link, dangling, linked_folder, new_in_linked_folder, hard_link, pipe, directory]


@pytest.mark.parametrize("make", ODD)
def test_F3_F6_what_is_no_file_of_the_folder_is_neither_taken_in_nor_written_to(
    daemon: Served, documents: Path, outside: Path, make: Callable[[Path, Path], str]
) -> None:
    name = make(documents / make.__name__, outside)
    person = Person(daemon)
    assert not [text for _, text in attempts(person, name) if SECRET in text]
    assert "here" in person.read("first.md")[1]  # the others are as they were, and nothing hangs
    assert SECRET not in "".join(person.read(each)[1] for each in person.names())
    assert untouched(outside)


def test_F3_the_folder_itself_may_be_a_link_and_nothing_goes_through_it(
    daemon: Served, documents: Path, outside: Path
) -> None:
    aside = documents.rename(documents.with_name("aside"))
    documents.symlink_to(outside)
    try:
        assert not [text for _, text in attempts(Person(daemon), "secret.md") if SECRET in text]
        assert untouched(outside)
    finally:
        documents.unlink()
        aside.rename(documents)


def test_the_daemon_is_alive_and_has_made_no_mistake(daemon: Served) -> None:
    assert daemon.alive()
    assert "Traceback" not in daemon.log()
