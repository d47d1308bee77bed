"""Repositories with traps: every setting, hook and attribute by which Git can be made to run something.

The settings are those of the installed Git (`git help --config`), so a new one is tried without anybody knowing it. A
sprung trap leaves a file with its name in the folder of the bait.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.patience import PATIENCE

#: Of settings that name a program, those that a plain command springs: setting → the words after `git`.
SPRUNG_BY: dict[str, tuple[str, ...]] = {
    "core.fsmonitor": ("status",),
    "core.editor": ("commit", "--allow-empty"),
    "core.askPass": ("credential", "fill"),
    "core.sshCommand": ("ls-remote", "ssh://example.invalid/x"),
    "core.gitProxy": ("ls-remote", "git://example.invalid/x"),
    "core.alternateRefsCommand": ("fetch", "../other"),
    "core.hooksPath": ("commit", "--allow-empty", "-m", "x"),
    "credential.helper": ("credential", "fill"),
    "gpg.program": ("commit", "--allow-empty", "-S", "-m", "x"),
    "diff.external": ("diff",),
    "diff.trap.command": ("diff",),
    "diff.trap.textconv": ("diff",),
    "filter.trap.clean": ("add", "--all"),
    "filter.trap.smudge": ("checkout", "-f", "HEAD", "--", "."),
    "filter.trap.process": ("add", "--all"),
    "remote.trap.uploadpack": ("fetch", "trap"),
    "remote.trap.receivepack": ("push", "trap", "HEAD:refs/heads/x"),
    "alias.trap": ("trap",),
    "include.path": ("status",),
    "includeIf.gitdir:/.path": ("status",),
    "trailer.trap.command": ("interpret-trailers", "--trailer", "trap=x"),
    "trailer.trap.cmd": ("interpret-trailers", "--trailer", "trap=x"),
    "tar.trap.command": ("archive", "--format=trap", "HEAD"),
    "difftool.trap.cmd": ("difftool", "--no-prompt", "--tool=trap"),
    "sequence.editor": ("rebase", "-i", "--autostash", "--root"),
    "merge.trap.driver": ("merge", "other"),
    "url.ext::.insteadOf": ("ls-remote", "trap:x"),
}
#: Settings that only make others work.
_BESIDE = {
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "trailer.trap.key": "trap",
    "remote.trap.url": "../other",
    "user.name": "Ann",
    "user.email": "ann@example.org",
    "user.signingKey": "x",
}
#: These say what a repository is; with nonsense in them there is none.
_FORM = re.compile(r"(?i)extensions\..*|core\.(repositoryformatversion|bare|worktree)")
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change"),
)
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "file:ssh:git:ext",
}


@cache
def settings() -> tuple[str, ...]:
    """Every setting that the installed Git knows, with a name where the list has a place for one."""
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout.split()
    named = {re.sub(r"<[^>]*>|\*", "trap", name) for name in listed if "." in name}
    settable = {name for name in named if "_" not in name}  # gitweb reads one that cannot be set
    return tuple(sorted(name for name in settable | SPRUNG_BY.keys() if not _FORM.fullmatch(name)))


@dataclass(frozen=True)
class Bait:
    folder: Path

    @property
    def taken(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "taken").iterdir())

    def program(self, name: str) -> Path:
        """What a trap runs: it says so, and as a filter passes on what it is given."""
        (self.folder / "taken").mkdir(parents=True, exist_ok=True)
        script = self.folder / re.sub(r"\W", "-", name)
        passes_on = "exec cat" if name.startswith("filter.") else "exit 0"
        script.write_text(f"#!/bin/sh\n: > '{self.folder}/taken/{script.name}'\n{passes_on}\n")
        script.chmod(0o755)
        return script

    def value(self, setting: str) -> str:
        if setting == "core.hooksPath":
            return str(self._hooks(setting))
        if setting.startswith(("include.", "includeIf.")):
            included = self.folder / "included"
            included.write_text(f"[core]\n\tfsmonitor = {self.program(setting)}\n")
            return str(included)
        if setting.startswith("url."):
            return "trap:"
        runs_by_mark = setting.startswith("alias.") or setting.endswith(".update")
        return f"{'!' if runs_by_mark else ''}{self.program(setting)}"

    def config(self, names: Iterable[str]) -> str:
        """A whole file of settings, each a trap."""
        lines = []
        for name in names:
            section, _, rest = name.partition(".")
            middle, _, key = rest.rpartition(".")
            url = section == "url"
            middle = f"ext::sh -c {self.program(name)} " if url else middle
            lines.append(f'[{section} "{middle}"]' if middle else f"[{section}]")
            lines.append(f"\t{key} = {self.value(name)}")
        for name, value in _BESIDE.items():
            section, _, rest = name.partition(".")
            middle, _, key = rest.rpartition(".")
            lines += [f'[{section} "{middle}"]' if middle else f"[{section}]", f"\t{key} = {value}"]
        return "\n".join(lines) + "\n"

    def set(self, git: Path, names: Iterable[str]) -> None:
        """Put traps into a repository: its settings, its hooks, its attributes, another repository to borrow from."""
        with (git / "config").open("a") as file:
            file.write(self.config(names))
        (git / "config.worktree").write_text((git / "config").read_text())
        for name in HOOKS:
            (git / "hooks").mkdir(exist_ok=True)
            (git / "hooks" / name).unlink(missing_ok=True)
            (git / "hooks" / name).symlink_to(self.program(f"hook {name}"))
        (git / "info").mkdir(exist_ok=True)
        (git / "info" / "attributes").write_text("* filter=trap diff=trap merge=trap\n")

    def _hooks(self, setting: str) -> Path:
        hooks = self.folder / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in HOOKS:
            (hooks / name).unlink(missing_ok=True)
            (hooks / name).symlink_to(self.program(setting))
        return hooks


def plain_git(folder: Path, *words: str) -> None:
    """Git as anybody would call it, whatever comes of it."""
    stdin = "protocol=https\nhost=example.invalid\n\n" if words[0] == "credential" else "q\n"
    env = _ENVIRONMENT | {"HOME": str(folder), "TERM": "xterm"}
    subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, input=stdin, timeout=PATIENCE)
