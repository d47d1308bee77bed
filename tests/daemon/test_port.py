"""The port, as those who connect to it feel it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from agent_worker.daemon.process.port import _is_closing, listening


async def test_an_answer_in_two_pieces_is_not_held_back_until_the_first_is_acknowledged(tmp_path: Path) -> None:
    """Nagle's algorithm would cost 40 ms for every answer on a connection that is kept."""
    accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    with listening(tmp_path, "127.0.0.1", 0) as listener:
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
        async with server:
            _, ours = await asyncio.open_connection(*listener.getsockname())
            theirs = await accepted
            assert theirs.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            ours.close()
            theirs.close()


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the system does not tell")
def test_S2_a_port_is_about_to_be_free_only_when_nobody_listens_on_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()  # who closes first has to keep the port for a while
            assert client.recv(1) == b""
        assert not _is_closing(port), "somebody listens"
    assert _is_closing(port)
