"""Git repositories for tests, on this disk, made without any configuration of whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2026-01-05T09:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass(frozen=True)
class Repository:
    path: Path

    @classmethod
    def at(cls, path: Path, **files: str) -> Repository:
        path.mkdir(parents=True)
        made = cls(path)
        made.git("init", "--quiet", "--initial-branch=main")
        made.commit(files)
        return made

    def git(self, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=_ENVIRONMENT, check=True, capture_output=True, text=True, input=stdin
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str]) -> str:
        """The id of a commit with these files, which are there besides those of the one before."""
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "more")
        return self.git("rev-parse", "HEAD")

    def add_object(self, mode: str, path: str, content: str) -> None:
        """Something that no honest program would add."""
        oid = content if mode == "160000" else self.git("hash-object", "-w", "--stdin", stdin=content)
        self.git("update-index", "--add", "--cacheinfo", f"{mode},{oid},{path}")
        self.git("commit", "--quiet", "--message", "odd")

    def source(self, path: str, *, ref: str = "main") -> str:
        return f"git+file://{self.path}@{ref}//{path}"
