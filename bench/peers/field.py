"""Who takes part: every arm with its program and what must be installed for it, at the versions we measured."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARMS = Path(__file__).parent / "arms"
CACHE = ROOT / ".tools" / "peers"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

LANGGRAPH = (
    "langgraph==1.2.20",
    "langchain==1.4.7",
    "langchain-openai==1.7.3",
    "langgraph-checkpoint-sqlite==3.1.2",
)

#: What their documentation says turns off what they tell home.
SILENCE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "AGNO_TELEMETRY": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "PYDANTIC_AI_NO_BANNER": "1",
}


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    program: str
    needs: tuple[str, ...] = ()  #: none: our own environment

    @property
    def python(self) -> Path:
        return CACHE / self._folder / "bin/python" if self.needs else Path(sys.executable)

    @property
    def _folder(self) -> str:
        return self.program.removeprefix("with_").removesuffix("_sqlite")

    def install(self) -> None:
        """Into an environment of its own, compiled, unless that has been done with these very versions."""
        if not self.needs:
            return
        folder = CACHE / self._folder
        note, wanted = folder / "installed.txt", "\n".join((PYTHON, *self.needs))
        if note.exists() and note.read_text() == wanted:
            return
        subprocess.run(("uv", "venv", "--quiet", "--clear", "--python", PYTHON, folder), check=True)
        compiled = ("uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", self.python)
        subprocess.run((*compiled, *self.needs), cwd=folder.anchor, check=True)  # our constraints are not theirs
        note.write_text(wanted)

    def command(self, task: str) -> tuple[str, ...]:
        return (str(self.python), str(ARMS / f"{self.program}.py"), task)


OURS = Arm("agent-worker", "with_agent_worker")
BY_HAND = Arm("by hand", "by_hand")
PEERS = (
    Arm("LangGraph", "with_langgraph", LANGGRAPH),
    Arm("LangGraph + SQLite", "with_langgraph_sqlite", LANGGRAPH),
    Arm("CrewAI", "with_crewai", ("crewai==1.15.30",)),
    Arm("AutoGen", "with_autogen", ("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
    Arm("OpenAI Agents SDK", "with_openai_agents", ("openai-agents==0.24.0",)),
    Arm("Agno", "with_agno", ("agno==3.1.10", "openai==3.49.0")),
    Arm("pydantic-ai", "with_pydantic_ai", ("pydantic-ai-slim[openai]==2.66.0",)),
)
ALL = (OURS, *PEERS, BY_HAND)


def environment(url: str, folder: Path) -> dict[str, str]:
    """Of an arm: the model's address, silence, a home that nobody has used, and bytecode as after an installation."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    places = {"HOME": str(folder), "TMPDIR": str(folder)}
    return kept | places | SILENCE | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "nobody-checks-it"}
