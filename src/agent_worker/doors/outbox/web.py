"""Sinks that are told by HTTP: a webhook of the person's own, signed, and ntfy. They are not followed elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
from email.header import Header
from typing import Any

from agent_worker.definitions.notifications import Sink
from agent_worker.doors.outbox.notice import Notice, NotSent, given

PATIENCE = 20.0  #: seconds


def send_webhook(sink: Sink, notice: Notice) -> None:
    body = notice.json.encode()
    headers = {"Content-Type": "application/json", "X-Agent-Worker-Delivery": notice.id}
    if secret := given(sink.secret):
        signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers["X-Agent-Worker-Signature"] = f"sha256={signed}"
    _post(sink, body, headers)


def send_ntfy(sink: Sink, notice: Notice) -> None:
    title = Header(notice.title, "utf-8").encode() if not notice.title.isascii() else notice.title
    headers = {"Title": " ".join(title.split()), "Tags": "robot"}
    if len(notice.items) == 1 and (link := notice.items[0]["link"]):
        headers["Click"] = link
    if token := given(sink.secret):
        headers["Authorization"] = f"Bearer {token}"
    _post(sink, notice.text.encode(), headers)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Stay where the person said: what is told may be private, and is signed with their secret."""


def _post(sink: Sink, body: bytes, headers: dict[str, str]) -> None:
    request = urllib.request.Request(str(sink.url), data=body, headers=headers, method="POST")
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=PATIENCE) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotSent(f"it answered {error.code}") from None
    except (OSError, ValueError) as error:  # of the network; of an address that no request can be made of
        raise NotSent(f"it could not be reached: {getattr(error, 'reason', error)}") from None
