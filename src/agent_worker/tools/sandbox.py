"""What an agent's command may see and change: the system read-only, its working directory, and no network.

Bubblewrap builds an empty world from an allow-list, so a secret nobody thought of is not there either. Files that
make *other* programs run something (control files) are read-only, also when they do not exist yet: an empty stand-in
takes their place while a command runs. The same lists tell the file tools what to refuse.
Not here: the kernel itself, and control files in directories beneath the working directory (nested repositories).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from agent_worker.errors import Refused
from agent_worker.processes.environment import safe_environment
from agent_worker.storage.paths import same_document

#: Names through which a project makes somebody's tools run something.
CONTROL_NAMES = (
    *(".git", ".envrc", ".vscode", ".idea", ".agents", ".workflows"),
    *(".claude", ".mcp.json", ".cursor", ".codex", ".opencode", "opencode.json", ".gemini"),
)
#: Ours: approved by content before they count, or written by us alone. No stand-in: we would stumble over it.
PROJECT_FILES = ("moniro.yaml", ".agents.yaml", ".workspace")
SHELL_PROFILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish"),
)
#: Beneath the home directory: what lets one act as the user.
CREDENTIALS = (
    *(".agent-worker", ".ssh", ".gnupg", ".netrc", ".git-credentials", ".password-store", ".vault-token"),
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".terraform.d", ".config/gh", ".config/git"),
    *(".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".local/share/keyrings"),
    *(".mozilla", ".config/google-chrome", ".config/chromium"),
)
TMP_BYTES = 1024**3  #: of memory, for each of /tmp and the home directory

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt"),
    *("/nix", "/gnu", "/run/current-system"),
)
_RESOLVER = "/run/systemd/resolve"  # where /etc/resolv.conf often points
_SYSTEM_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/ssh", "/etc/ssl/private"),
)  # only root could read them, but some daemons run as root
_TOOLCHAINS = (
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/mise", ".local/share/pnpm", ".local/share/fnm"),
    *(".pyenv", ".rbenv", ".nodenv", ".nvm", ".volta", ".bun/bin", ".deno/bin", ".asdf", ".sdkman"),
    *(".cargo/bin", ".rustup", "go/bin", ".nix-profile", "miniconda3", "anaconda3"),
)
#: In `.git`, what can name a program; the text is a stand-in that git takes for nothing, None an empty directory.
_GIT_CONTROL: dict[str, str | None] = {
    "hooks": None,
    "modules": None,
    "worktrees": None,
    "config": "",
    "config.worktree": "",
    "commondir": ".\n",
}
_WHERE_PROGRAMS_ARE = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"


def is_control(names: Iterable[str]) -> bool:
    """Does a path lead to a control file, at any depth and in any spelling?"""
    return _leads_to(names, CONTROL_NAMES + PROJECT_FILES + SHELL_PROFILES)


def secret_places(home: Path) -> tuple[Path, ...]:
    """The user's credentials and our own state: nothing for an agent to read, wherever its cwd is."""
    state = os.environ.get("AGENT_WORKER_HOME")
    return (*(home / name for name in CREDENTIALS), *([Path(state).absolute()] if state else []))


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why there is none on this machine."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    program: str
    home: Path
    _stand_ins: StandIns = field(default_factory=lambda: StandIns(), repr=False, compare=False)

    @contextmanager
    def around(
        self, argv: Sequence[str], *, cwd: Path, hidden: Iterable[Path] = (), network: bool = False
    ) -> Iterator[list[str]]:
        """The command line that runs this one inside. Let the command end before you leave the block."""
        cwd = cwd.resolve()
        if cwd == Path("/"):
            raise Refused("a sandbox cannot work in /", hint="give the agent a cwd of its own")
        outside, inside = _parted((*secret_places(self.home), *hidden), cwd)
        with self._stand_ins.placed(cwd, _control_files(cwd, home=self.home), inside) as protected:
            yield [
                self.program,
                *_namespaces(network=network),
                *_system(self.home, network=network),
                *_masks(outside),
                *("--bind", str(cwd), str(cwd)),
                *protected,
                *_masks(inside),
                *("--remount-ro", "/", "--chdir", str(cwd), "--setenv", "TMPDIR", "/tmp", "--"),
                *argv,
            ]


@cache
def find_sandbox() -> Sandbox | NoSandbox:
    """Tried once, for real: a program that is there may still not be allowed to do anything. Blocks for some ms."""
    if sys.platform != "linux":
        return NoSandbox("the sandbox needs Linux (bubblewrap)")
    program = shutil.which("bwrap", path=_WHERE_PROGRAMS_ARE)
    if program is None:
        return NoSandbox("bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)")
    sandbox = Sandbox(program, Path.home().resolve())
    if complaint := _complaint(sandbox):
        return NoSandbox(f"bubblewrap does not work on this machine: {complaint}")
    return sandbox


def _complaint(sandbox: Sandbox) -> str:
    argv = [sandbox.program, *_namespaces(network=False), *_system(sandbox.home, network=False), "--", "true"]
    try:
        tried = subprocess.run(argv, env=safe_environment(), capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return ""
    return tried.stderr.decode(errors="replace").strip().partition("\n")[0] or f"exit code {tried.returncode}"


def _namespaces(*, network: bool) -> list[str]:
    # Started by root, bubblewrap would keep every capability. A new session: no typing into our terminal.
    return [
        *("--unshare-all", *(["--share-net"] if network else [])),
        *("--new-session", "--die-with-parent", "--cap-drop", "ALL"),
    ]


def _system(home: Path, *, network: bool) -> list[str]:
    readable = [*_SYSTEM, *([_RESOLVER] if network else [])]
    scratch = ["/tmp", "/var/tmp", *([str(home)] if home != Path("/") else [])]
    return [
        *(argument for path in readable for argument in ("--ro-bind-try", path, path)),
        *_masks(map(Path, _SYSTEM_SECRETS)),
        *("--proc", "/proc", "--dev", "/dev"),
        *(argument for path in scratch for argument in ("--size", str(TMP_BYTES), "--tmpfs", path)),
        *(word for name in _TOOLCHAINS for word in ("--ro-bind-try", str(home / name), str(home / name))),
    ]


def _masks(paths: Iterable[Path]) -> Iterator[str]:
    """Nothing to see in their place, and no way to put something there."""
    for path in paths:
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))


def _parted(paths: Iterable[Path], cwd: Path) -> tuple[list[Path], list[Path]]:
    """Those that must be masked before the working directory is shown, and those within it."""
    resolved = [path.resolve() for path in paths]
    return (
        [path for path in resolved if not path.is_relative_to(cwd)],
        [path for path in resolved if path.is_relative_to(cwd) and path != cwd],
    )


def _control_files(cwd: Path, *, home: Path) -> dict[Path, str | None]:
    """What to protect, and the text of its stand-in if it is missing; None is a directory."""
    names = CONTROL_NAMES + SHELL_PROFILES if cwd == home else CONTROL_NAMES
    found: dict[Path, str | None] = {cwd / name: None for name in names}
    found |= {cwd / name: None for name in PROJECT_FILES if os.path.lexists(cwd / name)}
    git = cwd / ".git"
    if git.is_dir() and not _is_stand_in(git, None):
        del found[git]
        found |= {git / name: text for name, text in _GIT_CONTROL.items()}
    return found


class StandIns:
    """Empty files and directories that hold the place of control files while commands run.

    Only what exists can be protected. They look like nothing: git does not show an empty directory. A crash leaves
    them behind; they are known by mode and content, and the next command that ends in that directory removes them.
    """

    def __init__(self) -> None:
        self._commands: Counter[Path] = Counter()  # by working directory: the last one out tidies up

    @contextmanager
    def placed(self, cwd: Path, control: dict[Path, str | None], masked: Iterable[Path]) -> Iterator[list[str]]:
        wanted = control | {path: None for path in masked if path.parent.is_dir()}
        for path in wanted:
            if path.is_symlink() or (path.parent != cwd and path.parent.is_symlink()):
                raise Refused(
                    f"{path} is a link, and a link cannot be protected from an agent's commands",
                    hint="replace it by what it points to, or give the agent another cwd",
                )
        self._commands[cwd] += 1
        try:
            for path, text in wanted.items():
                with suppress(OSError):  # also when we may not write there: then the command may not either
                    _put_stand_in(path, text)
            yield list(_protections(cwd, tuple(control)))
        finally:
            self._commands[cwd] -= 1
            if not self._commands[cwd]:
                del self._commands[cwd]
                for path, text in wanted.items():
                    with suppress(OSError):
                        _remove_stand_in(path, text)


def _put_stand_in(path: Path, text: str | None) -> None:
    if text is None:
        path.mkdir()
        path.chmod(0o555)
        return
    with path.open("x") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o444)


def _remove_stand_in(path: Path, text: str | None) -> None:
    if _is_stand_in(path, text):
        path.rmdir() if text is None else path.unlink()


def _is_stand_in(path: Path, text: str | None) -> bool:
    mode = path.lstat().st_mode
    if text is None:
        return stat.S_ISDIR(mode) and mode & 0o777 == 0o555 and not any(path.iterdir())
    return stat.S_ISREG(mode) and mode & 0o777 == 0o444 and path.read_text() == text


def _protections(cwd: Path, control: Sequence[Path]) -> Iterator[str]:
    # Where it lies is a mount too, or `mv .git x && mkdir .git` would leave the protected files behind.
    around = dict.fromkeys(path.parent for path in control if path.parent != cwd)
    for path in filter(Path.exists, around):
        yield from ("--bind", str(path), str(path))
    for path in filter(Path.exists, control):
        yield from ("--ro-bind", str(path), str(path))


def _leads_to(names: Iterable[str], listed: Iterable[str]) -> bool:
    path = f"/{'/'.join(map(same_document, names))}/"
    return any(f"/{entry}/" in path for entry in listed)
