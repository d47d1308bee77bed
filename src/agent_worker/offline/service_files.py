"""The daemon as a service of the user: a unit of systemd, or an agent of launchd, and the commands that go with it.

What is written is text made here; the system's own programs are started by whoever wants it installed. Keys are in
neither: a service gets them by `agent-worker key set`.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_worker.client.discovery import DATABASE_VARIABLE, HOME_VARIABLE
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.later import dataclass

UNIT = "agent-worker.service"
LABEL = "agent-worker.daemon"  #: what launchd calls it
_PATIENCE = 60.0  # seconds
_STOPPING = 60  # seconds for steps that are under way
#: Of the terminal that installs it, what the daemon goes by and a service would not have.
_HANDED = ("PATH", HOME_VARIABLE, "AGENT_WORKER_PORT")


@dataclass(frozen=True, slots=True)
class SystemService:
    file: Path
    text: str
    begin: Sequence[Sequence[str]]  #: commands that enable and start it
    end: Sequence[Sequence[str]]  #: those that stop and disable it, before its file goes
    ask: Sequence[str]  #: the one whose exit says whether it runs
    after: str = ""  #: what only a person can decide


def service() -> SystemService:
    """The service of the system we are on. Raises Refused where there is neither systemd nor launchd."""
    if sys.platform == "darwin":
        return _launchd(Path.home(), _command(), handed(os.environ))
    if shutil.which("systemctl") is None:
        told = "there is no systemd here, and no launchd"
        raise Refused(told, hint="run it under what there is: agent-worker daemon run")
    return _systemd(Path.home(), _command(), handed(os.environ))


def handed(environ: Mapping[str, str]) -> dict[str, str]:
    if environ.get(DATABASE_VARIABLE):
        told = f"{DATABASE_VARIABLE} may hold a password, which a service's file is no place for"
        hint = "write it into the settings of the home, or install without it and add it to the unit yourself"
        raise BadInput(told, hint=hint)
    return {name: environ[name] for name in _HANDED if environ.get(name)}


def run(commands: Sequence[Sequence[str]], *, lenient: bool = False) -> None:
    """Start the system's programs, one after the other. Raises with what one of them said."""
    for command in commands:
        done = _started(command)
        if done.returncode and not lenient:
            said = (done.stderr or done.stdout).strip()[:500]
            raise AgentWorkerError(f"{' '.join(command)} failed: {said}", hint="agent-worker service status")


def is_running(wanted: SystemService) -> bool:
    return wanted.file.exists() and _started(wanted.ask).returncode == 0


def _started(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _command() -> list[str]:
    """How the daemon is started in the foreground, by whole paths."""
    found = shutil.which("agent-worker")
    ours = [os.path.abspath(found)] if found else [sys.executable, "-P", "-m", "agent_worker.cli"]
    return [*ours, "daemon", "run"]


# --- systemd ------------------------------------------------------------------------------------------


def _systemd(home: Path, command: Sequence[str], environ: Mapping[str, str]) -> SystemService:
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    user = ("systemctl", "--user")
    return SystemService(
        config / "systemd" / "user" / UNIT,
        unit(command, environ),
        ((*user, "daemon-reload"), (*user, "enable", "--now", UNIT)),
        ((*user, "disable", "--now", UNIT),),
        (*user, "is-active", "--quiet", UNIT),
        "it runs while you are logged in; to let it run always: loginctl enable-linger",
    )


def unit(command: Sequence[str], environ: Mapping[str, str]) -> str:
    program, *arguments = command  # systemd looks for variables in these alone
    lines = [
        "[Unit]",
        "Description=agent-worker: agents that work together",
        "",
        "[Service]",
        f"ExecStart={' '.join([_quoted(program), *(_quoted(each).replace('$', '$$') for each in arguments)])}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environ.items()),
        "Restart=on-failure",
        "RestartSec=2",
        f"TimeoutStopSec={_STOPPING}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as systemd reads it: nothing in it is a specifier, or the end of a text or a line."""
    if "\n" in text:
        raise BadInput("a path or variable with a line break cannot stand in a unit", hint="agent-worker daemon run")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


# --- launchd ------------------------------------------------------------------------------------------


def _launchd(home: Path, command: Sequence[str], environ: Mapping[str, str]) -> SystemService:
    file = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    return SystemService(
        file,
        agent(command, environ),
        (("launchctl", "bootstrap", domain, str(file)),),
        (("launchctl", "bootout", f"{domain}/{LABEL}"),),
        ("launchctl", "print", f"{domain}/{LABEL}"),
    )


def agent(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """What launchd reads. It is started again when it failed, and left alone when it was stopped."""
    described = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(environ),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": _STOPPING,
    }
    return plistlib.dumps(described).decode()
