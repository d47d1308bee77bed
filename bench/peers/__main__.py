"""What a user would pick instead: the same work with other agent libraries. Prints Markdown; see ../README.md.

    uv run python -m bench.peers [--rounds 3] [--only agno,langgraph] [--write docs/figures/peers.md]

Installs the others into `.tools/peers` first (about a gigabyte), then cuts itself off the network and measures.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers.field import ALL, BY_HAND, OURS, ROOT, Arm
from bench.peers.page import draw, page
from bench.peers.race import Foul, Measures, race

NAMESPACE = ("unshare", "--map-root-user", "--net")


def main() -> None:
    options = _parser().parse_args()
    arms = chosen(options.only)
    if options.round is not None:
        _raise_loopback()
        print(json.dumps(one_round(arms, options.round)))
        return
    for arm in arms:
        arm.install()
    begun, cut_off = time.monotonic(), _can_be_cut_off()
    rounds = [_apart(number, options.only) if cut_off else one_round(arms, number) for number in range(options.rounds)]
    minutes = (time.monotonic() - begun) / 60
    picture = draw(options.write, rounds) if options.write else ""
    text = page(rounds, picture, cut_off=cut_off, minutes=minutes)
    print(text)
    if options.write:
        options.write.write_text(text)


def one_round(arms: Sequence[Arm], number: int) -> dict[str, Measures]:
    """The arms begin in another order each round, so that nobody is always the first."""
    order = [*arms[number % len(arms) :], *arms[: number % len(arms)]]
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        return race(order, Path(folder))


def chosen(only: str) -> list[Arm]:
    """Ours and the loop by hand are always there: they are what the others are set against."""
    wanted = [name.strip().lower() for name in only.split(",") if name.strip()]
    for name in wanted:
        if not any(name in arm.program for arm in ALL):
            raise SystemExit(f"there is no peer {name}; known: {', '.join(arm.program for arm in ALL)}")
    fixed = (OURS, BY_HAND)
    return [arm for arm in ALL if not wanted or arm in fixed or any(name in arm.program for name in wanted)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="peers, separated by commas")
    parser.add_argument("--write", type=Path, help="also write the page here, and the plot beside it")
    parser.add_argument("--round", type=int, help=argparse.SUPPRESS)  # only this one, in a namespace made for it
    return parser


def _can_be_cut_off() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run((*NAMESPACE, "true")).returncode


def _apart(number: int, only: str) -> dict[str, Measures]:
    """A round in a process that can reach nobody but itself."""
    again = (sys.executable, "-m", "bench.peers", "--round", str(number), "--only", only)
    done = subprocess.run((*NAMESPACE, *again), cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(done.returncode)
    found: dict[str, Measures] = json.loads(done.stdout)
    return found


def _raise_loopback() -> None:
    """A new network namespace has it, but down. As `ip link set lo up`."""
    up, get_flags, set_flags = 0x1, 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(any_socket, get_flags, asked))
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


if __name__ == "__main__":
    try:
        main()
    except Foul as foul:
        raise SystemExit(f"no figures: {foul}") from None
