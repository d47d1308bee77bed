"""N10: keys of well-known services are recognised by their shape, and nothing that only looks random is."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.key_shapes import SHAPES, keys, made, secret_in, without_digits

from agent_worker.core.ids import new_id
from agent_worker.core.redaction import Passage, Redactor

ROOT = Path(__file__).parents[2]
AROUND = [
    "{}",
    "the config says: {} and that is it",
    'export KEY="{}"',
    "a\n{}\nb",
    "({}).",
    "KEY={}\n",
    "https://x.example/{}?b=1",
]
redact = Redactor()


def test_N10_at_least_forty_services_are_tried() -> None:
    assert len(SHAPES) >= 40


@pytest.mark.parametrize("around", AROUND)
def test_N10_no_key_of_a_well_known_service_is_left_standing(around: str) -> None:
    left = [service for service, key, secret in keys(each=5) if secret in redact(around.format(key))]
    assert left == []


def test_N10_of_keys_in_which_chance_put_no_digit_hardly_one_is_left_standing() -> None:
    """One of thirty keys with twenty characters is like this; what is missed of these could be a name, too."""
    made_so = [
        (parts, made(parts, 1000 * number + turn))
        for number, parts in enumerate(map(without_digits, SHAPES.values()))
        for turn in range(50)
    ]
    left = [key for parts, key in made_so if secret_in(parts, key) in redact(f"the config says: {key} and that is it")]
    assert len(left) * 100 < len(made_so), f"{len(left)} of {len(made_so)}"


def test_N10_also_in_json_and_in_json_in_json() -> None:
    for service, key, secret in keys():
        once = json.dumps({"text": f"see\n{key}\nthere"})
        assert secret not in redact(once), service
        assert secret not in redact(json.dumps({"arguments": once})), service
        assert json.loads(redact(once))["text"].startswith("see\n"), service


def test_N10_also_when_it_is_written_letter_by_letter() -> None:
    for service, key, secret in keys(each=1):
        passage = Passage(redact)
        shown = "".join(passage.add(letter) for letter in f"it is {key} you see ") + passage.end()
        assert secret not in shown, service


def test_N10_redacting_twice_changes_nothing_more() -> None:
    for _, key, _ in keys(each=1):
        once = redact(f"it is {key} there")
        assert redact(once) == once


def honest() -> Iterator[tuple[str, str]]:
    """What looks as random as a key and is none."""
    dice = random.Random(7)
    some = [dice.randbytes(24) for _ in range(3000)]
    for name, make in {"SHA-256": hashlib.sha256, "SHA-1": hashlib.sha1, "MD5": hashlib.md5}.items():
        yield name, "\n".join(make(each).hexdigest() for each in some)
    yield (
        "integrity of a lock file",
        "\n".join(f'"integrity": "sha512-{base64.b64encode(hashlib.sha512(each).digest()).decode()}"' for each in some),
    )
    yield "UUIDs", " ".join(str(uuid.UUID(bytes=each[:16], version=4)) for each in some)
    yield "our own ids", " ".join(new_id(letter) for letter in "abdhimpqrstvw" for _ in range(200))
    yield "a picture", f"data:image/png;base64,{base64.b64encode(dice.randbytes(600_000)).decode()}"
    yield "times", " ".join(f"2026-01-{n % 28 + 1:02d}T10:{n % 60:02d}:00.{n:06d}Z" for n in range(3000))


@pytest.mark.parametrize(("what", "text"), list(honest()), ids=lambda each: each if len(each) < 40 else "text")
def test_N10_what_only_looks_random_is_left_as_it_is(what: str, text: str) -> None:
    assert redact(text) == text


def test_N10_nothing_in_this_repository_is_taken_for_a_key() -> None:
    """Its source, pages and lists of versions; a password in an address, and `Authorization`, are meant to be found."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    found = {}
    for name in filter(None, listed.decode().split("\0")):
        try:
            text = (ROOT / name).read_text("utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        marks = re.findall(r"\[redacted:[\w-]+\]", redact(text))
        new = [mark for mark in marks if mark not in ("[redacted:password]", "[redacted:authorization]")]
        if len(new) > len(re.findall(r"\[redacted:[\w-]+\]", text)):
            found[name] = new
    assert found == {}
