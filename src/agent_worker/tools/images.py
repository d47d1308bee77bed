"""Pictures that tools return: known by their first bytes whatever they are called, bounded, and kept with their call.

Secrets are not looked for in them: a picture has no words that could be read.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import field

from agent_worker.core.disk_space import amount
from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass

LARGEST = 5 * 1024 * 1024  #: characters of base64: more than that Anthropic refuses
LARGEST_FILE = LARGEST // 4 * 3  #: bytes
MOST = 4  #: that one call may return
MOST_OF_WORK = 20 * 1024 * 1024  #: characters of base64 in one piece of work: a request has all of them in it
_BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF87a": "image/gif"}
_BEGINNINGS |= {b"GIF89a": "image/gif"}


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    base64: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"

    def __str__(self) -> str:
        return f"image, {amount(len(self.base64.rstrip('=')) * 3 // 4)}"


def image_in(content: bytes) -> Image | None:
    """The picture that these bytes are; None if they are none that a model could be shown."""
    kind = next((kind for begins, kind in _BEGINNINGS.items() if content.startswith(begins)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    return Image(kind, base64.b64encode(content).decode()) if kind else None


def image_of(text: str) -> Image | None:
    """The picture that a text in base64 is; None if it is none. The text may be anything."""
    try:
        return image_in(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None


def why_not(image: Image) -> str:
    """Why a picture is not shown to a model; '' when it is."""
    return f"larger than {amount(LARGEST_FILE)}" if len(image.base64) > LARGEST else ""


def dump(images: Iterable[Image]) -> str:
    """Pictures as they are stored; `load` reads them back."""
    return json.dumps([[image.media_type, image.base64] for image in images])


def load(stored: str) -> tuple[Image, ...]:
    """Read stored pictures, which are data of this shape and nothing more. Raises BadInput."""
    try:
        return tuple(map(_stored, json.loads(stored))) if stored else ()
    except (ValueError, TypeError, RecursionError):
        raise BadInput("the record of its images cannot be read", hint="dismiss it, and ask again") from None


def _stored(kept: object) -> Image:
    match kept:
        case [str(media_type), str(text)]:
            return Image(media_type, text)
    raise ValueError
