"""What an agent's command may see and change: the system read-only, its working directory, and no network.

Bubblewrap builds an empty world from an allow-list, so a secret nobody thought of is not there either. Files that
make *other* programs run something (core/control_files.py) and the project's own places are read-only, even those that
do not exist yet: an empty stand-in takes their place while a command runs. Deeper down, those that exist are read-only,
and whoever runs the command is told which have appeared or changed (`nested_control`). Not here: the kernel itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from itertools import islice
from pathlib import Path

from agent_worker.core.control_files import (
    CONTROL_NAMES,
    GIT_SETTINGS,
    SHELL_PROFILES,
    is_repository,
    is_stand_in,
)
from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.definitions.layout import OwnPlaces
from agent_worker.files.folder import make_directories
from agent_worker.files.paths import same_document
from agent_worker.processes.cgroups import MEMORY, PROCESSES, Place, group, usable_places
from agent_worker.processes.environment import safe_environment

#: Beneath the home directory: what lets one act as the user.
CREDENTIALS = (
    *(".agent-worker", ".ssh", ".gnupg", ".netrc", ".git-credentials", ".password-store", ".vault-token"),
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".terraform.d", ".config/gh", ".config/git"),
    *(".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".local/share/keyrings"),
    *(".mozilla", ".config/google-chrome", ".config/chromium"),
)
LOOKED_AT = 20_000  #: names, in search of control files deeper down
NO_PLACES = OwnPlaces()

#: Of a control file: the same as long as nobody touches it.
Sign = tuple[tuple[str, int, int, int], ...]

_CONTROL_FOLDED = frozenset(map(same_document, CONTROL_NAMES))
_PACKAGES = {"node_modules", ".venv", "venv", "__pycache__", "site-packages"}
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
#: In `.git`: the text is a stand-in that git takes for nothing, None an empty directory.
_GIT_STAND_INS: dict[str, str | None] = {"config": "", "config.worktree": "", "commondir": ".\n"}
# Outside, before it becomes bubblewrap: first in line when memory runs out, no core files, in its groups.
_LIMITED = """\
echo 1000 > /proc/self/oom_score_adj
ulimit -c 0; ulimit -d "$1"; ulimit -f "$2"; shift 2
while [ "$1" != -- ]; do echo $$ > "$1" || exit 126; shift; done
shift; exec "$@"
"""
# Inside, where only its own processes are counted. Two shells, two letters.
_COUNTED = 'ulimit -u "$1" 2>/dev/null || ulimit -p "$1"; shift; exec "$@"'
_WHERE_PROGRAMS_ARE = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"


def secret_places(home: Path) -> tuple[Path, ...]:
    """The user's credentials and our own state: nothing for an agent to read, wherever its cwd is."""
    state = os.environ.get("AGENT_WORKER_HOME")
    return (*(home / name for name in CREDENTIALS), *([Path(state).absolute()] if state else []))


def half_of_memory() -> int:
    return max(1024**3, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What one command may take. Bytes, but for the processes; temporary files are kept in memory too."""

    memory: int = field(default_factory=half_of_memory)  #: of all its processes, or of each where there are no groups
    processes: int = 1024  #: and threads
    temporary: int = 1024**3  #: for each of /tmp and the home directory
    shared: int = 256 * 1024**2  #: /dev/shm
    file: int = 4 * 1024**3  #: the largest one it can write


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Says why there is no sandbox on this machine."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    program: str
    home: Path
    ceilings: Ceilings = field(default_factory=Ceilings)
    groups: tuple[Place, ...] = field(default_factory=usable_places)
    _stand_ins: StandIns = field(default_factory=lambda: StandIns(), repr=False, compare=False)

    @contextmanager
    def around(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        hidden: Iterable[Path] = (),
        network: bool = False,
        places: OwnPlaces = NO_PLACES,
        nested: Iterable[Path] = (),
        own_copy: bool = False,
    ) -> Iterator[list[str]]:
        """The command line that runs a command in the sandbox. Let the command end before you leave the block.

        `nested` are the control files deeper down (`nested_control`). In its `own_copy` of the project a command may
        commit: `.git` can be written there, but for what names a program.
        """
        cwd = cwd.resolve()
        if cwd == Path("/"):
            raise Refused("a sandbox cannot work in /", hint="give the agent a cwd of its own")
        if cwd in places.folders:
            raise Refused(f"{cwd} holds the files of a workspace or an agent", hint="give the agent another cwd")
        outside, inside = _parted((*secret_places(self.home), *hidden), cwd)
        _make_own(places.folders, cwd)
        control = _control_files(cwd, home=self.home, places=places, own_copy=own_copy)
        most = self.ceilings
        grouped = group(self.groups, {MEMORY: most.memory, PROCESSES: most.processes})
        with self._stand_ins.placed(cwd, control, inside) as protected, grouped as joined:
            yield [
                *("/bin/sh", "-c", _LIMITED, "sh", str(most.memory // 1024), str(most.file // 512)),
                *(*map(str, joined), "--"),
                self.program,
                *_namespaces(network=network),
                *_system(self.home, most, network=network),
                *_masks(outside),
                *("--bind", str(cwd), str(cwd)),
                *_read_only(path for path in nested if not _is_within(path, control)),
                *protected,
                *_masks(inside),
                *("--remount-ro", "/", "--chdir", str(cwd), "--setenv", "TMPDIR", "/tmp", "--"),
                *("/bin/sh", "-c", _COUNTED, "sh", str(most.processes), *argv),
            ]


@cache
def find_sandbox() -> Sandbox | NoSandbox:
    """The sandbox of this machine, tried once for real: a program that is there may not be allowed to do anything.
    Blocks for some ms.
    """
    if sys.platform != "linux":
        return NoSandbox("the sandbox needs Linux (bubblewrap)")
    program = shutil.which("bwrap", path=_WHERE_PROGRAMS_ARE)
    if program is None:
        return NoSandbox("bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)")
    sandbox = Sandbox(program, Path.home().resolve())
    if complaint := _complaint(sandbox):
        return NoSandbox(f"bubblewrap does not work on this machine: {complaint}")
    return sandbox


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    held: bool
    told: str


def limits_that_hold(sandbox: Sandbox) -> list[Limit]:
    """Which limits hold here, for `doctor`; tried for real where it depends on the machine. Blocks for some ms."""
    most, grouped = sandbox.ceilings, {place.controller for place in sandbox.groups}
    memory = f"{most.memory / 1024**3:.1f} GB for "
    memory += "a command" if MEMORY in grouped else "each process of a command: there are no control groups for us here"
    by_limit = PROCESSES in grouped or _counts_processes(sandbox)
    processes = (
        f"at most {most.processes:,} for a command" if by_limit else "not limited: root is limited by groups only"
    )
    temporary = f"{most.temporary / 1024**3:g} GB in /tmp and in ~, {most.shared / 1024**2:g} MB in /dev/shm"
    return [
        Limit("memory", True, memory),
        Limit("processes", by_limit, processes),
        Limit("temporary files", True, f"{temporary}, {most.file / 1024**3:g} GB for one file"),
    ]


def _counts_processes(sandbox: Sandbox) -> bool:
    forks = "for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait"
    argv = [sandbox.program, *_namespaces(network=False), *_system(sandbox.home, sandbox.ceilings, network=False)]
    argv += ["--", "/bin/sh", "-c", _COUNTED, "sh", "4", "/bin/sh", "-c", forks]
    try:
        return subprocess.run(argv, env=safe_environment(), capture_output=True, timeout=10).returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _complaint(sandbox: Sandbox) -> str:
    argv = [sandbox.program, *_namespaces(network=False), *_system(sandbox.home, sandbox.ceilings, network=False)]
    argv += ["--", "true"]
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


def _system(home: Path, most: Ceilings, *, network: bool) -> list[str]:
    readable = [*_SYSTEM, *([_RESOLVER] if network else [])]
    scratch = {"/tmp": most.temporary, "/dev/shm": most.shared}
    scratch |= {str(home): most.temporary} if home != Path("/") else {}
    return [
        *(argument for path in readable for argument in ("--ro-bind-try", path, path)),
        *_masks(map(Path, _SYSTEM_SECRETS)),
        *("--proc", "/proc", "--dev", "/dev"),
        *(word for path, size in scratch.items() for word in ("--size", str(size), "--tmpfs", path)),
        *("--remount-ro", "/dev", "--symlink", "/tmp", "/var/tmp"),
        *(word for name in _TOOLCHAINS for word in ("--ro-bind-try", str(home / name), str(home / name))),
    ]


def _masks(paths: Iterable[Path]) -> Iterator[str]:
    """Arguments that hide these paths: nothing is seen in their place, and nothing can be put there."""
    for path in paths:
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))


def _parted(paths: Iterable[Path], cwd: Path) -> tuple[list[Path], list[Path]]:
    """The paths that must be masked before the working directory is shown, and those within it."""
    resolved = [path.resolve() for path in paths]
    return (
        [path for path in resolved if not path.is_relative_to(cwd)],
        [path for path in resolved if path.is_relative_to(cwd) and path != cwd],
    )


def nested_control(cwd: Path) -> dict[Path, Sign]:
    """Control files in the folders beneath this one, each with what tells it from another one in its place.

    Also other spellings of control files in this folder itself, and what a repository without `.git` obeys, here or
    beneath. Looks at a bounded number of names, nearest first, and not into installed packages.
    """
    found: dict[Path, Sign] = {}
    left, waiting = LOOKED_AT, [cwd.resolve()]
    for folder in waiting:
        control, names = [], set()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, left):
                left -= 1
                names.add(entry.name)
                if same_document(entry.name) in _CONTROL_FOLDED:
                    # In the working directory the names themselves are held, but not their other spellings.
                    control += [entry.name] if folder != waiting[0] or entry.name not in CONTROL_NAMES else []
                elif entry.name not in _PACKAGES and entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
        if is_repository(names):
            control += [name for name in GIT_SETTINGS if name in names]
        found |= {path: _sign(path) for name in control if not is_stand_in(path := folder / name)}
    return found


def _sign(path: Path) -> Sign:
    """A stamp of a control file: of the file itself, and of what lies in it if it is a folder."""
    inner = sorted(islice(path.iterdir(), 100)) if path.is_dir() and not path.is_symlink() else []
    seen = [(each.name, _stat(each)) for each in (path, *inner)]
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in seen if status)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _make_own(folders: Iterable[Path], cwd: Path) -> None:
    """Make the folders that we fill ourselves for good: a stand-in would be in our own way while a command runs."""
    for folder in folders:
        if folder.is_relative_to(cwd):
            with suppress(OSError):
                make_directories(folder)
                if is_stand_in(folder):  # a crash left it
                    folder.chmod(0o700)


def _control_files(cwd: Path, *, home: Path, places: OwnPlaces, own_copy: bool) -> dict[Path, str | None]:
    """What to protect, and the text of its stand-in if it is missing; None is a directory."""
    names = CONTROL_NAMES + SHELL_PROFILES if cwd == home else CONTROL_NAMES
    found: dict[Path, str | None] = {_to_hold(cwd, cwd / name): None for name in names}
    git = cwd / ".git"
    if own_copy and git.is_dir() and not is_stand_in(git):
        del found[git]
        found |= {git / name: _GIT_STAND_INS.get(name) for name in GIT_SETTINGS}
    for path in (*places.folders, *places.files):
        if path.is_relative_to(cwd) and path != cwd and not _is_within(path, found):
            found[_to_hold(cwd, path)] = None
    return found


def _to_hold(cwd: Path, path: Path) -> Path:
    """What to hold so that nothing appears at this path: itself, or the first folder on the way that is missing."""
    missing = (folder for folder in _between(cwd, path) if not folder.is_dir() or is_stand_in(folder))
    return next(missing, path)


def _is_within(path: Path, others: Container[Path]) -> bool:
    return path in others or any(parent in others for parent in path.parents)


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
            if any(each.is_symlink() for each in (path, *_between(cwd, path))):
                raise Refused(
                    f"{path} is a link, and a link cannot be protected from an agent's commands",
                    hint="replace it with what it points to, or give the agent another cwd",
                )
        self._commands[cwd] += 1
        try:
            for path, text in wanted.items():
                _hold_place(path, text)
            yield list(_protections(cwd, control))
        finally:
            self._commands[cwd] -= 1
            if not self._commands[cwd]:
                del self._commands[cwd]
                for path, text in wanted.items():
                    with suppress(OSError):
                        _remove_stand_in(path, text)


def _hold_place(path: Path, text: str | None) -> None:
    """Put a stand-in where nothing is. Nothing runs if we cannot, and the command perhaps could."""
    try:
        _put_stand_in(path, text)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno != errno.EROFS and not (isinstance(error, PermissionError) and _is_of_others(path.parent)):
            raise Refused(
                f"{path} cannot be protected from an agent's commands: {error.strerror}",
                hint="make it possible to create files there, or give the agent another cwd",
            ) from None


def _is_of_others(folder: Path) -> bool:
    """Whether a file belongs to others: its rights are not ours to change, so they are not the command's either."""
    status = _stat(folder)
    return status is not None and status.st_uid != os.geteuid()


def _put_stand_in(path: Path, text: str | None) -> None:
    if text is None:
        path.mkdir(0o555)  # at once: until then others would take it for what it stands in for
        return
    try:
        with path.open("x") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o444)
    except FileExistsError:
        raise
    except OSError:  # no room for it: half of one would be read
        path.unlink(missing_ok=True)
        raise


def _remove_stand_in(path: Path, text: str | None) -> None:
    if _is_stand_in(path, text):
        path.rmdir() if text is None else path.unlink()


def _is_stand_in(path: Path, text: str | None) -> bool:
    if text is None:
        return is_stand_in(path)
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) and mode & 0o777 == 0o444 and path.read_text() == text


def _protections(cwd: Path, control: Iterable[Path]) -> Iterator[str]:
    # Where it lies is a mount too, or `mv .git x && mkdir .git` would leave the protected files behind.
    around = dict.fromkeys(folder for path in control for folder in _between(cwd, path))
    for path in filter(Path.exists, around):
        yield from ("--bind", str(path), str(path))
    yield from _read_only(control)


def _read_only(paths: Iterable[Path]) -> Iterator[str]:
    for path in filter(Path.exists, paths):
        if not path.is_symlink():
            yield from ("--ro-bind", str(path), str(path))


def _between(cwd: Path, path: Path) -> list[Path]:
    """The folders that lead from the working directory to a path, from above."""
    return [folder for folder in reversed(path.parents) if folder != cwd and folder.is_relative_to(cwd)]
