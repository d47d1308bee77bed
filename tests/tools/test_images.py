"""Pictures that tools return: which are taken for one, and how large they may be."""

from __future__ import annotations

import base64

import pytest

from agent_worker.core.errors import BadInput
from agent_worker.tools.images import LARGEST_FILE, dump, image_in, image_of, load, why_not
from tests.pictures import PNG, PNG_TEXT, png


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif"),
        (b"GIF87a\1\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(content: bytes, kind: str) -> None:
    image = image_in(content)
    assert image
    assert image.media_type == kind
    assert base64.b64decode(image.base64) == content


@pytest.mark.parametrize("content", [b"", b"\x89PN", b"RIFF\x24\0\0\0WAVE", b"<svg/>", b"BM\0\0", b"%PDF-1.7"])
def test_anything_else_is_none(content: bytes) -> None:
    assert image_in(content) is None


@pytest.mark.parametrize("text", ["AAAA", "not base64!", "ü", "A", ""])
def test_a_text_that_is_no_picture_is_none(text: str) -> None:
    assert image_of(text) is None


def test_a_picture_says_how_large_it_is_and_not_what_is_in_it() -> None:
    image = image_in(png(12_000))
    assert str(image) == "image, 12 kB"
    assert len(repr(image)) < 100


def test_what_is_larger_than_a_provider_takes_is_not_shown() -> None:
    assert not why_not(image_in(PNG + b"\0" * (LARGEST_FILE - len(PNG))))  # type: ignore[arg-type]
    assert why_not(image_in(PNG + b"\0" * (LARGEST_FILE - len(PNG) + 3))) == "larger than 3.9 MB"  # type: ignore[arg-type]


def test_pictures_are_read_back_as_they_were_stored() -> None:
    image = image_of(PNG_TEXT)
    assert image
    assert load(dump([image, image])) == (image, image)
    assert load(dump([])) == ()


@pytest.mark.parametrize("stored", ["{", "5", "[1]", '[["image/png"]]', '[["image/png", 5]]', "[" * 100_000])
def test_what_was_not_stored_by_us_is_refused(stored: str) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(stored)
