"""Whom the load is put on: projects with rooms of mock agents, most of them with a part to play.

A *lead* hands what it is told to a *mate*, who hands it to a *last* one, so every chain ends after three runs. Others
fail and are tried again, call a shell, are a program of their own, or wake by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

WORKSPACE = 25  # members
PROGRAM = Path(__file__).with_name("program.py")

_LEAD = """backend: mock
script:
  - call: {{ tool: my_status_set, with: {{ status: handing over }} }}
  - call: {{ tool: channel_send, with: {{ text: "@{other} this is for you" }} }}
  - say: handed over
  - again: true
"""
_MATE = """backend: mock
script:
  - call: {{ tool: resource_create, with: {{ text: "what {name} found" }} }}
  - say: "@{other} please finish it"
  - again: true
"""
_WRITER = """backend: mock
script:
  - call: {{ tool: team_doc_append, with: {{ name: "{name}.md", text: "a line by {name}\\n" }} }}
  - say: "@{other} please finish it"
  - again: true
"""
_LAST = """backend: mock
script:
  - call: {{ tool: channel_send, with: {{ text: finished }} }}
  - say: done
  - again: true
"""
_FLAKY = """backend: mock
script:
  - fail: transient
  - call: {{ tool: channel_send, with: {{ text: at the second try }} }}
  - call: {{ tool: channel_send, with: {{ wrong: argument }} }}
  - say: done
  - again: true
"""
_FRAGILE = """backend: mock
script:
  - fail: crash
  - call: {{ tool: resource_create, with: {{ text: not lost }} }}
  - say: done
  - again: true
"""
_SHELL = """backend: mock
tools: [bash]
script:
  - call: {{ tool: bash, with: {{ command: "sleep 0.2; echo $((6*7)); sleep 0.2 & wait" }} }}
  - say: done
  - again: true
"""
_PROGRAM = """backend: acp
command: [{python}, {program}, {number}]
prompt: {{ system: You are a program. }}
"""
_SLEEPER = """backend: mock
schedule: {{ wakeup: 20s, prompt: Look around. }}
"""
_PLAIN = "backend: mock\n"


@dataclass(frozen=True, slots=True)
class Room:
    """One workflow, and who in it is spoken to in which way."""

    project: Path
    workflow: str
    leads: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)  #: those that start processes; spoken to directly
    plain: list[str] = field(default_factory=list)

    @property
    def at(self) -> str:
        return f"@{self.workflow}"


def write_teams(place: Path, agents: int) -> list[Room]:
    """Rooms of equal size, two to a project; every second one keeps files."""
    count = max(2, round(agents / WORKSPACE))
    sizes = [agents // count + (number < agents % count) for number in range(count)]
    return [_write_workspace(place / f"project{n // 2}", n, size) for n, size in enumerate(sizes)]


def _write_workspace(project: Path, number: int, size: int) -> Room:
    workspace = Room(project, f"room{number}")
    (project / ".agents").mkdir(parents=True, exist_ok=True)
    (project / ".workflows").mkdir(exist_ok=True)
    members = []
    for name, text in _members(workspace, number, size):
        (project / ".agents" / f"{name}.yaml").write_text(text)
        members.append(f"  {name}: {{ ref: {name} }}\n")
    provider = "sqlite" if number % 2 else "file"
    workflow = f"agents:\n{''.join(members)}workspace: {{ provider: {provider} }}\n"
    (project / ".workflows" / f"{workspace.workflow}.yaml").write_text(workflow)
    return workspace


def _members(workspace: Room, number: int, size: int) -> Iterator[tuple[str, str]]:
    """Name and definition of each."""
    chains = max(1, (size - 5) // 5)
    for chain in range(chains):
        lead, mate, last = (f"{part}{number}x{chain}" for part in ("lead", "mate", "last"))
        workspace.leads.append(lead)
        yield lead, _LEAD.format(other=mate)
        yield mate, (_MATE if chain % 3 else _WRITER).format(other=last, name=mate)
        yield last, _LAST.format()
    special = {
        f"flaky{number}": _FLAKY.format(),
        f"fragile{number}": _FRAGILE.format(),
        f"shell{number}": _SHELL.format(),
        f"program{number}": _PROGRAM.format(python=sys.executable, program=PROGRAM, number=f"'{number}'"),
        f"sleeper{number}": _SLEEPER.format(),
    }
    workspace.unsteady.extend(list(special)[:2])
    workspace.children.extend(list(special)[2:4])
    yield from special.items()
    for n in range(size - 3 * chains - len(special)):
        workspace.plain.append(f"plain{number}x{n}")
        yield workspace.plain[-1], _PLAIN
