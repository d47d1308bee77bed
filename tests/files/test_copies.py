"""A file, what is kept for all hosts, and what both were when they last agreed: whoever has changed is followed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_worker.files.copies import LARGEST, SHORT, Agreed, Copies, CopyRecord, Verdict, texts_in, verdict
from agent_worker.files.root import Root
from agent_worker.files.swap import content_hash

A, B, C, D = (content_hash(text) for text in "abcd")


#: What both were, the file now, what is kept now and was before, and what follows.
CASES: dict[str, tuple[Agreed | None, str, str, list[str], Verdict]] = {
    "nothing has changed": (Agreed(A, A), A, A, [], "same"),
    "both have changed in the same way": (Agreed(A, A), B, B, [A], "same"),
    "a person has edited the file": (Agreed(A, A), B, A, [], "take"),
    "a person has removed the file": (Agreed(A, A), "", A, [], "take"),
    "another host has changed it": (Agreed(A, A), A, B, [A], "write"),
    "another host has removed it": (Agreed(A, A), A, "", [A], "write"),
    "both have changed it": (Agreed(A, A), C, B, [A], "both"),
    "removed here and changed elsewhere: what was written stays": (Agreed(A, A), "", B, [A], "write"),
    "changed here and removed elsewhere: what was written stays": (Agreed(A, A), B, "", [A], "take"),
    "a file that nobody knows": (None, A, "", [], "take"),
    "a host that has no file yet": (None, "", A, [], "write"),
    "a checkout that is behind": (None, A, B, [A], "write"),
    "a checkout that says something else": (None, C, B, [A], "both"),
    "another host writes the same folder, and is not done": (Agreed(A, A), B, C, [A, B], "write"),
    "a person has put back what once was, and it was changed elsewhere": (Agreed(B, B), A, C, [A, B], "both"),
    "a person has put back what was removed": (Agreed("", ""), A, "", [A], "take"),
    "the file holds a secret, and neither has changed": (Agreed(A, B), A, B, [], "same"),
    "the file holds a secret, and another host has changed it": (Agreed(A, B), A, C, [B], "both"),
}


@pytest.mark.parametrize("case", CASES)
def test_of_file_and_text_the_one_that_has_changed_is_followed(case: str) -> None:
    agreed, file, text, earlier, follows = CASES[case]
    assert verdict(agreed, file, text, [each[:SHORT] for each in earlier]) == follows


class Shelf:
    """What is kept for all hosts, here in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}  # each with those before it; '' when it is gone
        self.told: list[str] = []

    def now(self, path: str) -> str:
        return self.texts.get(path, [""])[-1]

    async def versions(self) -> Mapping[str, str]:
        return {path: _hash(all_[-1]) for path, all_ in self.texts.items()}

    async def earlier(self, path: str) -> Sequence[str]:
        return [_hash(each)[:SHORT] for each in self.texts[path][:-1] if each]

    async def text(self, path: str) -> tuple[str, str]:
        return self.now(path), _hash(self.now(path))

    async def put(self, path: str, text: str | None, *, seen: str) -> str | None:
        if _hash(self.now(path)) != seen:
            return None
        self.texts.setdefault(path, []).append(text or "")
        return _hash(text or "")

    async def put_beside(self, path: str, text: str, *, beside: str) -> str:
        self.told.append(beside)
        self.texts.setdefault(path, []).append(text)
        return _hash(text)


def _hash(text: str) -> str:
    return content_hash(text) if text else ""


class Host:
    """One of several that have copies."""

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        self.folder = folder / "copies"
        self.folder.mkdir(parents=True)
        self._home = Root.private(folder / "home")
        self._shelf = shelf
        self.begin_anew()

    def begin_anew(self) -> None:
        """As after a restart."""
        record = CopyRecord(self._home, "alice")
        self.copies = Copies(Root(self.folder), texts_in, self._shelf, record)

    async def agree(self) -> dict[str, str]:
        await self.copies.agree()
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir()) if path.is_file()}


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def hosts(tmp_path: Path, shelf: Shelf) -> tuple[Host, Host]:
    return Host(tmp_path / "one", shelf), Host(tmp_path / "two", shelf)


async def test_what_is_written_changed_and_removed_on_one_host_is_so_on_the_other(hosts: tuple[Host, Host]) -> None:
    one, two = hosts
    (one.folder / "core.yaml").write_text("colour: green\n")
    (one.folder / "work.yaml").write_text("a: b\n")
    assert await one.agree() == await two.agree() == {"core.yaml": "colour: green\n", "work.yaml": "a: b\n"}
    (two.folder / "core.yaml").write_text("colour: blue\n")
    (two.folder / "work.yaml").unlink()
    assert await two.agree() == await one.agree() == {"core.yaml": "colour: blue\n"}


async def test_a_file_that_was_removed_and_is_put_back_as_it_was_stays(hosts: tuple[Host, Host]) -> None:
    """Though what is kept knows it as an earlier text: such is a folder that is behind, which this one is not."""
    one, two = hosts
    file = one.folder / "a.md"
    file.write_text("first")
    await one.agree()
    await two.agree()
    for host in (one, two):  # where it is removed, and where that is only heard of
        file.unlink()
        await one.agree()
        assert await two.agree() == {}
        host.begin_anew()
        (host.folder / "a.md").write_text("first")
        assert await host.agree() == await one.agree() == await two.agree() == {"a.md": "first"}


async def test_what_two_people_write_at_once_is_kept_twice_on_both_hosts_and_told(
    hosts: tuple[Host, Host], shelf: Shelf
) -> None:
    one, two = hosts
    (one.folder / "core.yaml").write_text("colour: green\n")
    await one.agree()
    await two.agree()
    for host, colour in ((one, "blue"), (two, "red")):
        (host.folder / "core.yaml").write_text(f"colour: {colour}\n")
    await one.agree()
    found = await two.agree()
    assert found.pop("core.yaml") == "colour: blue\n"
    (beside,) = found
    assert beside.startswith("core.yaml.conflict-")
    assert found[beside] == "colour: red\n"
    assert await one.agree() == {"core.yaml": "colour: blue\n", beside: "colour: red\n"}
    assert shelf.told == ["core.yaml"]


async def test_after_a_restart_it_is_known_what_was_edited_meanwhile(hosts: tuple[Host, Host], shelf: Shelf) -> None:
    one, two = hosts
    (one.folder / "core.yaml").write_text("1\n")
    await one.agree()
    await two.agree()
    (one.folder / "core.yaml").write_text("2\n")
    one.begin_anew()
    await one.agree()
    assert shelf.now("core.yaml") == "2\n"
    (two.folder / "core.yaml").write_text("3\n")
    two.begin_anew()
    assert len(await two.agree()) == 2
    assert shelf.told == ["core.yaml"]


async def test_a_folder_that_is_gone_altogether_is_written_anew(hosts: tuple[Host, Host]) -> None:
    one, _ = hosts
    for name in ("a.md", "b.md"):
        (one.folder / name).write_text(name)
    before = await one.agree()
    shutil.rmtree(one.folder)
    assert await one.agree() == before


async def test_what_a_database_never_knew_it_has_not_removed(hosts: tuple[Host, Host], shelf: Shelf) -> None:
    one, _ = hosts
    for name in ("a.md", "b.md"):
        (one.folder / name).write_text(name)
    before = await one.agree()
    shelf.texts.clear()
    assert await one.agree() == before
    assert sorted(shelf.texts) == ["a.md", "b.md"]


async def test_what_is_in_the_way_of_one_file_keeps_no_other_from_its_host(
    hosts: tuple[Host, Host], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = hosts
    for name in ("a.md", "b.md"):
        (one.folder / name).write_text(name)
    before = await one.agree()
    (two.folder / "a.md").symlink_to(two.folder / "nowhere")
    for _ in range(2):
        assert await two.agree() == {"b.md": "b.md"}
    assert [each.getMessage() for each in caplog.records] == [
        f"{two.folder / 'a.md'} is not what other hosts have: 'a.md' is a link, not a regular file"
    ]
    assert two.copies.seen is None, "it is looked at again by itself"
    (two.folder / "a.md").unlink()
    assert await two.agree() == before
    assert two.copies.seen == two.copies.stamps()


async def test_what_is_no_text_or_too_large_or_linked_stays_on_its_host_and_costs_nobody_theirs(
    hosts: tuple[Host, Host], shelf: Shelf
) -> None:
    one, two = hosts
    (one.folder / "core.yaml").write_text("a: b\n")
    await one.agree()
    (one.folder / "core.yaml").write_bytes(b"\xff\xfe")
    (one.folder / "zeros.md").write_bytes(b"\0\0")
    (one.folder.parent / "elsewhere.md").write_text("not of this folder")
    os.link(one.folder.parent / "elsewhere.md", one.folder / "linked.md")
    await one.copies.agree()
    assert shelf.now("core.yaml") == "a: b\n"
    assert await two.agree() == {"core.yaml": "a: b\n"}
    (two.folder / "long.md").write_text("x" * (LARGEST + 1))
    await two.agree()
    assert set(shelf.texts) == {"core.yaml"}
