"""Group G: what a repository, or the name of one, could try when a workflow or a skill is fetched from it."""

from __future__ import annotations

import base64
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.repositories import Repository

from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.remote import Fetched, is_remote, looks_like, parse_remote
from agent_worker.files.root import Root
from agent_worker.processes.git import environment
from agent_worker.workflows import remote
from agent_worker.workflows.remote import Remotes, credentials

NOW = datetime(2026, 1, 5, tzinfo=UTC)
FLOW = "agents: { ann: { backend: mock } }\nkickoff: '@ann hello'\n"


@pytest.fixture
def remotes(tmp_path: Path) -> Remotes:
    return Remotes(Root(tmp_path / "home" / "remote"))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.at(tmp_path / "repo", **{"flows/review.yaml": FLOW, "flows/prompt.md": "be kind"})


async def fetch(remotes: Remotes, source: str, *, folder: str | None = None) -> Fetched:
    return await remotes.get(parse_remote(source), now=NOW, folder=folder)


def files_of(fetched: Fetched) -> list[str]:
    return sorted(str(path.relative_to(fetched.root)) for path in fetched.root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "source",
    [
        "github:--upload-pack=touch/r@main/x.yaml",
        "github:../r@main/x.yaml",
        "github:o/..@main/x.yaml",
        "github:o/r..x@main/x.yaml",
        "github:-o/r@main/x.yaml",
        "github:o/-r@main/x.yaml",
        "github:o/r@-x/x.yaml",
        "github:o/r@--upload-pack=touch/x.yaml",
        "github:o/r@a..b/x.yaml",
        "github:o/r@main^{tree}/x.yaml",
        "github:o/r@main:x/x.yaml",
        "github:o/r@x.lock/x.yaml",
        "github:o/r@main/../x.yaml",
        "github:o/r@main/.git/config.yaml",
        "github:o/r@main/a/.GIT/x.yaml",
        "github:o/r@main/-x.yaml",
        "github:o/r@main//a//b.yaml",
        "github:o/r@main/",
        "github:o/r@main",
        "github:o/r/x.yaml",
        "github:o@main/x.yaml",
        "github:o/r/s@main/x.yaml",
        "github:u:p@o/r@main/x.yaml",
        "github:o/r@main/x.yaml\n",
        "github:o/r@main/x .yaml",
        "github:o/r@ma in/x.yaml",
        "github:о/r@main/x.yaml",  # a Cyrillic letter
        "github:o/r@main/x\x00.yaml",
        "GITHUB:o/r@main/x.yaml",
        "git+ssh://host/r@main//x.yaml",
        "git+https://token@host/r@main//x.yaml",
        "git+ext::sh -c touch@main//x.yaml",
        "git+file://host/r@main//x.yaml",
        "git+file:///a/../b@main//x.yaml",
        "git+file:///-a@main//x.yaml",
        "git+file:///a b@main//x.yaml",
        "git+file:///@main//x.yaml",
        "git+file:///a@main",
        "github:" + "o" * 10_000 + "/r@main/x.yaml",
        "github:o/r@" + "a/" * 10_000 + "/x.yaml",
    ],
)
def test_G1s_what_is_not_clearly_a_place_to_fetch_from_is_refused(source: str) -> None:
    assert is_remote(source)
    with pytest.raises(BadInput, match="cannot be fetched from"):
        parse_remote(source)


@pytest.mark.parametrize(
    ("source", "url", "ref", "path"),
    [
        ("github:o/r@v1/review.yaml", "https://github.com/o/r.git", "v1", "review.yaml"),
        ("github:o-x/r.y_z@release/1.2//a/b.yaml", "https://github.com/o-x/r.y_z.git", "release/1.2", "a/b.yaml"),
        ("git+file:///srv/flows@main/.workflows/x.yaml", "file:///srv/flows", "main", ".workflows/x.yaml"),
    ],
)
def test_a_place_says_what_it_means(source: str, url: str, ref: str, path: str) -> None:
    found = parse_remote(source)
    assert (found.url, found.ref, found.path) == (url, ref, path)
    assert parse_remote(str(found)) == found


async def test_G1s_words_of_a_source_are_operands_of_git(
    repository: Repository, remotes: Remotes, tmp_path: Path
) -> None:
    """Even a name that got past the grammar could not become an option."""
    bad = parse_remote(repository.source("flows/review.yaml"))
    object.__setattr__(bad, "ref", f"--upload-pack=touch {tmp_path}/pwned")
    with pytest.raises((Refused, NotFound)):
        await remotes.get(bad, now=NOW)
    object.__setattr__(bad, "repository", f"x --upload-pack=touch {tmp_path}/pwned")
    with pytest.raises((Refused, NotFound)):
        await remotes.newest(bad)
    assert not (tmp_path / "pwned").exists()


async def test_only_the_folder_of_the_file_is_taken_as_it_was_in_the_commit(
    repository: Repository, remotes: Remotes
) -> None:
    commit = repository.commit({"other/secret.txt": "no", "flows/deep/more.md": "more"})
    found = await fetch(remotes, repository.source("flows/review.yaml"))
    assert found.commit == commit
    assert files_of(found) == ["deep/more.md", "prompt.md", "review.yaml"]
    assert (found.root / "review.yaml").read_text() == FLOW
    assert not [path for path in found.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o177]


async def test_G2s_nothing_of_a_repository_does_anything(
    repository: Repository, remotes: Remotes, tmp_path: Path
) -> None:
    trap = f"#!/bin/sh\ntouch {tmp_path}/pwned\n"
    hooks = repository.path / ".git" / "hooks"
    for name in ("post-checkout", "pre-auto-gc", "reference-transaction", "post-index-change", "pre-receive"):
        (hooks / name).parent.mkdir(exist_ok=True)
        (hooks / name).write_text(trap)
        (hooks / name).chmod(0o755)
    (repository.path / "trap.sh").write_text(trap)
    repository.commit({".gitattributes": "* filter=trap\n", ".gitmodules": '[submodule "s"]\npath = s\nurl = ../s\n'})
    repository.git("config", "filter.trap.smudge", f"sh {repository.path}/trap.sh")
    repository.git("config", "core.fsmonitor", f"{repository.path}/trap.sh")
    repository.git("config", "uploadpack.packObjectsHook", f"{repository.path}/trap.sh")
    repository.add_object("120000", "flows/link", "/etc/passwd")
    repository.add_object("160000", "flows/module", repository.git("rev-parse", "HEAD"))
    repository.add_object("100755", "flows/run.sh", trap)
    (tmp_path / "pwned").unlink(missing_ok=True)  # its own git, when we committed, obeyed
    found = await fetch(remotes, repository.source("flows/review.yaml"))
    assert files_of(found) == ["prompt.md", "review.yaml", "run.sh"]
    assert sorted(found.left_out) == ["link (a link)", "module (a submodule)"]
    assert not os.access(found.root / "run.sh", os.X_OK)
    assert not (tmp_path / "pwned").exists()


async def test_G2s_a_workflow_that_is_a_link_is_not_there(repository: Repository, remotes: Remotes) -> None:
    repository.add_object("120000", "linked/review.yaml", "/etc/passwd")
    with pytest.raises(NotFound):
        await fetch(remotes, repository.source("linked/review.yaml"))


async def test_G2s_names_that_are_no_paths_are_left_out(repository: Repository, remotes: Remotes) -> None:
    for name in ("flows/a\rb", "flows/\u202egnp.exe", "flows/nul", "flows/tail."):
        repository.add_object("100644", name, "x")
    found = await fetch(remotes, repository.source("flows/review.yaml"))
    assert files_of(found) == ["prompt.md", "review.yaml"]
    assert len(found.left_out) == 4
    assert "\u202e" not in json.dumps(found.left_out, ensure_ascii=False)


async def test_G3s_a_branch_that_moves_changes_nothing_until_it_is_updated(
    repository: Repository, remotes: Remotes
) -> None:
    source = repository.source("flows/review.yaml")
    first = await fetch(remotes, source)
    second = repository.commit({"flows/review.yaml": FLOW.replace("hello", "delete everything")})
    assert (await fetch(remotes, source)).commit == first.commit
    assert (await remotes.newest(parse_remote(source))).commit == second
    assert (await fetch(remotes, source)).commit == first.commit, "looking changes nothing"
    await remotes.move(parse_remote(source), second, now=NOW)
    assert (await fetch(remotes, source)).commit == second


async def test_G3s_a_lock_outlives_the_cache_and_the_branch(
    repository: Repository, remotes: Remotes, tmp_path: Path
) -> None:
    source = repository.source("flows/review.yaml")
    first = await fetch(remotes, source)
    repository.commit({"flows/review.yaml": "changed"})
    for folder in (tmp_path / "home" / "remote").iterdir():
        if folder.is_dir():
            Root(folder.parent).remove_tree(folder.name)
    again = await fetch(remotes, source)
    assert again.commit == first.commit
    assert (again.root / "review.yaml").read_text() == FLOW


async def test_G4s_only_a_full_id_is_a_commit(repository: Repository, remotes: Remotes) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"flows/review.yaml": "second"})
    with pytest.raises(NotFound, match="no branch or tag"):
        await fetch(remotes, repository.source("flows/review.yaml", ref=first[:10]))
    repository.git("branch", first[:12])  # a branch that looks like the first commit, and is the second
    found = await fetch(remotes, repository.source("flows/review.yaml", ref=first[:12]))
    assert found.commit == repository.git("rev-parse", "HEAD")
    found = await fetch(remotes, repository.source("flows/review.yaml", ref=first))
    assert found.commit == first
    assert [lock.source for lock in await remotes.locked()] == [
        str(parse_remote(repository.source("flows/review.yaml", ref=first[:12])))
    ], "a commit needs no lock"


async def test_a_tag_is_the_commit_it_stands_for_and_one_that_is_a_branch_too_is_refused(
    repository: Repository, remotes: Remotes
) -> None:
    repository.git("tag", "--annotate", "--message", "first", "v1")
    commit = repository.git("rev-parse", "HEAD")
    assert (await fetch(remotes, repository.source("flows/review.yaml", ref="v1"))).commit == commit
    repository.git("branch", "v2")
    repository.git("tag", "v2")
    with pytest.raises(BadInput, match="is a branch and a tag"):
        await fetch(remotes, repository.source("flows/review.yaml", ref="v2"))


def test_G5s_a_token_goes_to_its_own_host_only_and_is_no_word_of_a_command() -> None:
    given = {"PATH": "/bin", "GITHUB_TOKEN": "ghp_canary", "AWS_SECRET_ACCESS_KEY": "canary"}
    assert credentials(parse_remote("git+file:///srv/r@main//x.yaml"), given) == {}
    assert "canary" not in json.dumps(environment(Path("/tmp/x"), source=given))
    github = credentials(parse_remote("github:o/r@main/x.yaml"), given)
    kept = [name for name, value in github.items() if "Basic" in value]
    assert kept == ["GIT_CONFIG_VALUE_0"]
    assert github["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraHeader"
    assert base64.b64decode(github["GIT_CONFIG_VALUE_0"].split()[-1]) == b"x-access-token:ghp_canary"
    assert "ghp_canary" not in json.dumps(github)
    assert not any(word in parse_remote("github:o/r@main/x.yaml").url for word in ("canary", "@"))


async def test_G5s_an_error_names_the_place_and_no_secret(remotes: Remotes, tmp_path: Path) -> None:
    with pytest.raises(Refused) as error:
        await fetch(remotes, f"git+file://{tmp_path}/nothing@main//x.yaml")
    assert f"{tmp_path}/nothing" in error.value.message
    assert error.value.hint


async def test_G6s_too_many_files_are_refused(
    repository: Repository, remotes: Remotes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "FILES", 20)
    repository.commit({f"flows/{n}.txt": "x" for n in range(20)})
    with pytest.raises(Refused, match="more than 20 files"):
        await fetch(remotes, repository.source("flows/review.yaml"))
    assert not (tmp_path / "home").exists()


async def test_G6s_a_large_file_is_left_out_and_a_large_folder_refused(
    repository: Repository, remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"flows/large.txt": "x" * 5000})
    monkeypatch.setattr(remote, "FILE", 4000)
    found = await fetch(remotes, repository.source("flows/review.yaml"))
    assert found.left_out == ("large.txt (larger than 4,000 bytes)",)
    repository.commit({f"flows/{n}.txt": "x" * 3000 for n in range(4)})
    monkeypatch.setattr(remote, "ALL_FILES", 10_000)
    with pytest.raises(Refused, match="more than"):
        await remotes.newest(parse_remote(repository.source("flows/review.yaml")))


async def test_G6s_a_repository_that_is_too_large_is_not_carried_over(
    repository: Repository, remotes: Remotes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "TRANSFER", 128 * 1024)
    (repository.path / "elsewhere").write_bytes(os.urandom(512 * 1024))
    repository.commit({})
    with pytest.raises(Refused, match="is larger than"):
        await fetch(remotes, repository.source("flows/review.yaml"))
    assert not (tmp_path / "home").exists()


async def test_G6s_a_slow_other_side_is_given_up(
    repository: Repository, remotes: Remotes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "TIME", 0.3)
    real = shutil.which("git")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\n[ "$1" = ls-remote ] && sleep 60\nexec {real} "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    with pytest.raises(Refused, match="was given up"):
        await fetch(remotes, repository.source("flows/review.yaml"))


def test_G9s_names_that_look_alike_are_told_apart() -> None:
    assert looks_like("acrne/skills", "acme/skills")
    assert looks_like("g00gle/x", "google/x")
    assert looks_like("an-thropic/x", "anthropic/x")
    assert not looks_like("acme/skills", "acme/skills")
    assert not looks_like("acme/skills", "other/skills")
