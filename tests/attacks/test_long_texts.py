"""Texts made to keep a reader busy: what a model, a person or a repository wrote is read once, however it repeats.

No time is asserted: a reader that begins anew at every place of such a text takes an hour, and the test hangs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_worker.cli.prose import drawn
from agent_worker.cli.wrapping import hanging
from agent_worker.core.mentions import find_mentions
from agent_worker.core.redaction import Redactor
from agent_worker.identity.corrections import corrections_in
from agent_worker.memory.facts import is_status
from agent_worker.memory.judging import PairsQuestion
from agent_worker.trust.command_reach import reach_of_shell

LONG = 200_000

READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "the verdicts of a judge": (PairsQuestion(()).read, ("\n", "\n ", "1 ", "-\n")),
    "what a person said to an agent": (corrections_in, ("„", "“", "«„", "'„", "always ")),
    "what an agent says of its work": (lambda text: is_status(f"i{text}x"), (" ", "\n ")),
    "who is called": (lambda text: find_mentions(text, ["bob"], sender="ann"), ("@", "`", "> ", "@bob `")),
    "what may be a secret": (Redactor(["a-secret-of-ours"]), ("key=", "sk-", "-----BEGIN ", "Bearer ")),
    "an answer on a terminal": (
        lambda text: [drawn(f"{mark}{text}x", 80) for mark in ("", "# a", "| a |\n|")],
        (" ", "`", "**a", "__a", "[", "[a](", "|-", "- "),
    ),
    "a line of help": (lambda text: hanging(text, 80), (" ", "a", "a  ")),
    "the name of a command": (lambda text: reach_of_shell(f"{text}x", Path(tempfile.gettempdir())), ("1", "-.")),
    "a command that is none": (
        lambda text: reach_of_shell(text, Path(tempfile.gettempdir())),
        ("*|", ")中", "<<a\n", "a=(", "$[", "a() "),
    ),
    "a pattern in a command": (lambda text: reach_of_shell(f"cat {text}", Path(tempfile.gettempdir())), ("[a", "*a")),
}


@pytest.mark.parametrize(
    ("reader", "part"), [(reader, part) for reader, (_, parts) in READERS.items() for part in parts]
)
def test_a_text_that_repeats_itself_is_read_in_one_go(reader: str, part: str) -> None:
    READERS[reader][0](part * (LONG // len(part)))


def test_a_pattern_too_long_to_be_a_path_may_be_any_file(tmp_path: Path) -> None:
    assert "a pattern that fits too many files" in reach_of_shell(f"bash {'a?' * 600}", tmp_path).anything


def test_a_script_too_hard_to_be_read_may_run_anything_and_a_long_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "hard.sh").write_text("*|" * 12_000)
    (tmp_path / "long.sh").write_text("echo 'a line'\n" * 10_000 + "./other\n")
    (tmp_path / "other").write_text("echo hi")
    assert any("too hard to be read" in each for each in reach_of_shell("bash hard.sh", tmp_path).anything)
    long = reach_of_shell("bash long.sh", tmp_path)
    assert set(long.files) == {"long.sh", "other"}
    assert not long.anything
