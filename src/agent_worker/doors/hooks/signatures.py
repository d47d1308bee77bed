"""Whether a webhook was signed with a secret, in the ways of those who send them. Pure, and in constant time.

GitHub signs the body; GitLab sends its token, or signs; `generic` is Standard Webhooks, which signs the id and the time
too. Where the id is not signed, the body itself says whether it is the same webhook again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from starlette.datastructures import Headers

from agent_worker.core.later import dataclass
from agent_worker.definitions.triggers import Trigger

FRESH = 300  #: seconds by which the time in a signature may differ from ours
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class Signed:
    """What a right signature tells of a webhook."""

    id: str
    event: str  #: '' where it stands in the body
    same: str  #: what makes it the same webhook again
    is_timed: bool = False  #: when it was sent is signed too, and is not long ago


def signed(trigger: Trigger, secret: str, headers: Headers, body: bytes, *, now: float) -> Signed | None:
    """The delivery that a request is; None when it is not signed with this secret, or not as this trigger wants it."""
    match trigger.signed:
        case "github":
            return _github(secret, headers, body)
        case "gitlab" if headers.get("webhook-signature") is None:
            return _gitlab(secret, headers, body)
        case _:
            return _standard(secret, headers, body, now=now)


def _github(secret: str, headers: Headers, body: bytes) -> Signed | None:
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not _is(_only(headers, "x-hub-signature-256"), expected):
        return None
    return _told(_only(headers, "x-github-delivery"), _only(headers, "x-github-event"), _digest(body))


def _gitlab(secret: str, headers: Headers, body: bytes) -> Signed | None:
    if not _is(_only(headers, "x-gitlab-token"), secret):
        return None
    id = _only(headers, "idempotency-key") or _only(headers, "x-gitlab-event-uuid")
    return _told(id, _only(headers, "x-gitlab-event"), _digest(body))


def _standard(secret: str, headers: Headers, body: bytes, *, now: float) -> Signed | None:
    id, at = _only(headers, "webhook-id"), _only(headers, "webhook-timestamp")
    if not id or not at.isascii() or not at.isdecimal() or len(at) > 12 or abs(now - int(at)) > FRESH:
        return None
    content = f"{id}.{at}.".encode("utf-8", "surrogateescape") + body
    made = base64.b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()
    given = _only(headers, "webhook-signature").split(" ")[:10]  # several while a secret is changed
    if not any([_is(each, f"v1,{made}") for each in given]):
        return None
    return _told(id, _only(headers, "x-gitlab-event"), id, is_timed=True)


def _told(id: str, event: str, same: str, *, is_timed: bool = False) -> Signed | None:
    return Signed(id, event[:_LONGEST_ID], same, is_timed) if 0 < len(id) <= _LONGEST_ID else None


def _only(headers: Headers, name: str) -> str:
    """The value of a header; '' also when it is there twice: which of them would be meant?"""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _is(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _key(secret: str) -> bytes:
    """Standard Webhooks writes keys as whsec_ and base64; any other text is the key itself."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
