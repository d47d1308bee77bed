"""What the tests of printed lines and blocks share: one daemon, whose agents with a model are answered by a fake."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.fakes.model_server import ModelServer
from tests.repositories import Repository
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

GH = '#!/bin/sh\necho "a change, as gh $1 $2 shows it"\n'


@contextmanager
def model_api() -> Iterator[str]:
    """The address of a provider that answers everything."""
    loop, server = asyncio.new_event_loop(), ModelServer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    yield server.url("ok")
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextmanager
def daemon_with_models(tmp: Path) -> Iterator[Served]:
    """With a key for that provider, and a `gh` that knows one pull request."""
    programs = tmp / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with model_api() as address:
        keys = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-ant-none", "PATH": path}
        with served(tmp, keys) as daemon:
            yield daemon


def project(daemon: Served, place: Path, files: dict[str, str]) -> Terminal:
    """A terminal in a project of its own, a repository with these files and two commits."""
    repository = Repository.at(place, **{"README.md": "first"})
    repository.commit({"README.md": "second"})
    (place / ".agents").mkdir()
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return Terminal(replace(daemon, project=place))
