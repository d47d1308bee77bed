"""A network of its own for one host, joined to ours by a pair of virtual cables: a real kernel's network, which a test
may cut. What is sent while it is cut goes to a card that nobody has: nothing is refused, it is lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_NOBODYS_CARD = "02:00:00:00:00:99"


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    cable: str  #: our end of it
    ours: str  #: our address on it; nobody else has these two, which exist on this cable only
    theirs: str

    def command(self, *words: str) -> Sequence[str]:
        """What runs a program in there."""
        return ("ip", "netns", "exec", self.name, *words)

    def cut(self, *, there: bool = True, back: bool = True) -> None:
        """Lose what is sent from there to us, what we send there, or both."""
        if there:
            _ip(
                "-n",
                self.name,
                "neigh",
                "replace",
                self.ours,
                "lladdr",
                _NOBODYS_CARD,
                "dev",
                "inside",
                "nud",
                "permanent",
            )
        if back:
            _ip("neigh", "replace", self.theirs, "lladdr", _NOBODYS_CARD, "dev", self.cable, "nud", "permanent")

    def heal(self) -> None:
        ours, theirs = _card(self.cable), _card("inside", "-n", self.name)
        _ip("-n", self.name, "neigh", "replace", self.ours, "lladdr", ours, "dev", "inside", "nud", "permanent")
        _ip("neigh", "replace", self.theirs, "lladdr", theirs, "dev", self.cable, "nud", "permanent")


@contextmanager
def open_namespace() -> Iterator[Namespace]:
    number = os.getpid()
    network, first = f"10.213.{number >> 6 & 255}", (number & 63) << 2  # another process has another one
    ours, theirs = f"{network}.{first + 1}", f"{network}.{first + 2}"
    made = Namespace(f"agent-worker-{number}", f"aw{number}", ours, theirs)
    _ip("netns", "add", made.name)
    try:
        _ip("link", "add", made.cable, "type", "veth", "peer", "name", "inside", "netns", made.name)
        _ip("address", "add", f"{made.ours}/30", "dev", made.cable)
        _ip("link", "set", made.cable, "up")
        _ip("-n", made.name, "address", "add", f"{made.theirs}/30", "dev", "inside")
        for card in ("lo", "inside"):
            _ip("-n", made.name, "link", "set", card, "up")
        yield made
    finally:
        _ip("netns", "delete", made.name)  # and the cable with it


def _card(name: str, *where: str) -> str:
    (found,) = json.loads(_ip(*where, "-json", "link", "show", name))
    return str(found["address"])


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
