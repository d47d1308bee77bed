"""What an agent shares with colleagues: what is marked for it, and nothing that would give away what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.files.root import Root
from agent_worker.memory import memory
from agent_worker.memory.sharing import shareable


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path / "alice")


def written(home: Root, file: str, text: str) -> None:
    path = home.location(memory.path_of(file))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def shared(home: Root) -> list[str]:
    return [entry.key for entry in shareable(home).told]


SHARED = "release: {{ value: {}, visibility: shareable }}\n"


def test_A1_only_what_is_marked_is_shared(home: Root) -> None:
    written(home, "working", SHARED.format("on friday") + "salary: 4000 a month\n")
    assert shared(home) == ["release"]


def test_A3_what_repeats_something_private_is_private_too(home: Root) -> None:
    written(home, "working", "code: The DOOR  code is 7319\n" + SHARED.format("as you know the door code is 7319"))
    assert shared(home) == []


def test_A3_a_short_private_word_keeps_no_honest_sentence_back(home: Root) -> None:
    written(home, "working", "day: friday\n" + SHARED.format("on friday"))
    assert shared(home) == ["release"]


def test_A6_what_came_from_outside_is_not_shared_before_a_person_has_released_it(home: Root) -> None:
    text = "release: { value: on friday, visibility: shareable, by: outside }\n"
    written(home, "working", text)
    assert shared(home) == []


def test_A12_what_was_forgotten_is_not_shared(home: Root) -> None:
    written(home, "archive", SHARED.format("on friday"))
    assert shared(home) == []


@pytest.mark.parametrize(
    "told",
    [
        "use AK-7781-zz to open the vault",
        "the vault opens with ak 7781 zz",
        "it is A K 7 7 8 1 Z Z",
        "vault: AK.7781.ZZ, do not lose it",
        "in words it is A K seven seven eight one Z Z",
    ],
)
def test_A3_a_rare_token_of_something_private_is_not_told_in_other_words(home: Root, told: str) -> None:
    written(home, "working", "vault: the vault code is AK-7781-ZZ\n" + SHARED.format(f'"{told}"'))
    found = shareable(home)
    assert found.told == ()
    assert [(entry.key, private) for entry, private in found.withheld] == [("release", "vault")], (
        "the owner can be told"
    )


def test_A1_what_is_for_one_colleague_is_told_to_that_one_only(home: Root) -> None:
    written(home, "working", "release: { value: on friday, share_with: [carol] }\n")
    assert [entry.key for entry in shareable(home, asker="carol").told] == ["release"]
    assert shareable(home, asker="bob").told == shareable(home).told == ()


def test_what_is_disputed_is_not_told(home: Root) -> None:
    written(home, "working", "release: { value: on friday, visibility: shareable, disputes: releases }\n")
    assert shared(home) == []


def test_A3_nor_is_it_told_by_a_key(home: Root) -> None:
    vault = "vault: the vault code is AK-7781-ZZ\n"
    written(home, "working", vault + "AK-7781-ZZ: { value: opens it, visibility: shareable }\n")
    assert shareable(home).told == ()


def test_A3_nor_a_piece_here_and_a_piece_there(home: Root) -> None:
    pieces = ("AK-77", "81-ZZ")
    text = "".join(f"part {n}: {{ value: it goes {each}, visibility: shareable }}\n" for n, each in enumerate(pieces))
    written(home, "working", "vault: the vault code is AK-7781-ZZ\nday: friday\n" + text + SHARED.format("on friday"))
    found = shareable(home)
    assert [entry.key for entry in found.told] == ["release"]
    assert [private for _, private in found.withheld] == ["vault", "vault"], "its owner is told of both"
