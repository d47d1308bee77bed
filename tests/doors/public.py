"""The listener for others, as somebody elsewhere reaches it: by the name of `public_url`, on a port of this machine."""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from urllib.parse import urlencode

import yaml
from tests.patience import PATIENCE, eventually
from tests.shells.served import Answer, Served

HOST = "agents.example.org"
URL = f"http://{HOST}"
FORM = "application/x-www-form-urlencoded"


def public(home: Path) -> None:
    """The person's settings: others reach this home by a tunnel."""
    home.mkdir(exist_ok=True)
    (home / "settings.yaml").write_text(yaml.safe_dump({"public_url": URL, "public_port": 0}))


def port_of(daemon: Served) -> int:
    """Where the tunnel leads to; after a restart another."""
    found = eventually(lambda: re.findall(r"answers for \S+ on 127\.0\.0\.1:(\d+)", daemon.log()))
    return int(found[-1])


def reach(
    port: int, method: str, path: str, body: bytes = b"", *, host: str = HOST, kind: str = "", **headers: str
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    given = {name.replace("_", "-"): value for name, value in headers.items()} | (
        {"Content-Type": kind} if kind else {}
    )
    try:
        connection.request(method, path, body, {"Host": host} | given)
        answer = connection.getresponse()
        return Answer(answer.status, [(k.lower(), v) for k, v in answer.getheaders()], answer.read())
    finally:
        connection.close()


def answer(port: int, secret: str, *, headers: dict[str, str] | None = None, **form: str) -> Answer:
    """What the page's forms send."""
    body = urlencode({"secret": secret} | form).encode()
    return reach(port, "POST", "/answer/item", body, kind=FORM, **headers or {})
