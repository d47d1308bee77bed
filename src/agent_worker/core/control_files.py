"""Files by which somebody's programs run something, or do something else, as soon as they see them.

The one list: agents may not write them, no document or note may be called like them, and the guide prints them
(docs/guides/what-agents-may-write.md). On sight means: because a person opens the folder, changes into it, or uses
version control there. What runs only when it is asked for (Makefile, package.json) is not here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

#: Ours: definitions, limits, and what only the daemon writes.
OURS = ("moniro.yaml", ".agents.yaml", ".agents", ".workflows", ".workspace")
_LEFTHOOK = ("lefthook", ".lefthook", "lefthook-local", ".lefthook-local")
#: By group, as the guide prints them. A name covers all beneath it.
GROUPS = {
    "agent-worker": OURS,
    "version control and its hooks": (
        *(".git", ".hg", ".jj", ".sl", ".husky", ".githooks"),
        *(".pre-commit-config.yaml", "prek.toml", ".overcommit.yml", ".lefthook"),
        *(f"{name}.{ending}" for name in _LEFTHOOK for ending in ("yml", "yaml", "toml", "json", "jsonc")),
    ),
    "changing into a folder": (
        *(".envrc", ".direnv", "mise.toml", "mise.local.toml", ".mise.toml", ".mise.local.toml", ".mise"),
    ),
    "editors": (
        *(".vscode", ".vs", ".idea", ".fleet", ".zed", ".helix", ".devcontainer", ".devcontainer.json"),
        *(".vimrc", ".lvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el"),
    ),
    "coding programs": (
        *(".claude", ".mcp.json", ".cursor", ".codex", ".opencode", "opencode.json", "opencode.jsonc", ".gemini"),
        *(".aider.conf.yml", ".amazonq", ".amp", ".augment", ".cline", ".clinerules", ".codebuddy", ".continue"),
        *(".copilot", ".crush", ".crush.json", "crush.json", ".factory", ".goose", ".iflow", ".junie", ".kilocode"),
        *(".kiro", ".openhands", ".pi", ".qwen", ".roo", ".roomodes", ".trae", ".vibe", ".windsurf"),
    ),
}
CONTROL_NAMES = tuple(name for group in GROUPS.values() for name in group)
#: Only where a shell reads them: in the home directory.
SHELL_PROFILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish"),
)

#: What the name of a document, a note or a memory may end in: texts for people, nothing that is run or built.
TEXTS = (
    *(".md", ".markdown", ".txt", ".rst", ".adoc", ".org", ".html", ".log"),
    *(".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".sql", ".diff", ".patch"),
)
#: Texts all the same, but ones that coding programs and build tools look for by name.
OBEYED_TEXTS = (
    *(
        "CLAUDE.md",
        "CLAUDE.local.md",
        "AGENTS.md",
        "AGENTS.override.md",
        "AGENT.md",
        "GEMINI.md",
        "QWEN.md",
        "CRUSH.md",
        "WARP.md",
        "SKILL.md",
    ),
    *("package.json", "deno.json", "composer.json", "tsconfig.json", "jsconfig.json", "mcp.json", "hooks.json"),
    *("settings.json", "settings.local.json", "tasks.json", "launch.json", "devcontainer.json", "plugin.json"),
    *("gemini-extension.json", "angular.json", "devbox.json", "lerna.json", "nx.json", "project.json", "turbo.json"),
    *("compose.yaml", "compose.yml", "compose.override.yaml", "compose.override.yml"),
    *("docker-compose.yaml", "docker-compose.yml", "docker-compose.override.yaml", "docker-compose.override.yml"),
    *("process-compose.yaml", "process-compose.yml", "serverless.yml", "skaffold.yaml", "mkdocs.yml", "_config.yml"),
    *("Taskfile.yaml", "Taskfile.yml", "Taskfile.dist.yaml", "Taskfile.dist.yml", "package.yaml"),
    *("pnpm-workspace.yaml", "action.yaml", "action.yml", "CMakeLists.txt", "requirements.txt"),
)


#: In a repository, what can name a program.
GIT_SETTINGS = ("hooks", "modules", "worktrees", "config", "config.worktree", "commondir")


def is_repository(names: Collection[str]) -> bool:
    """Whether Git takes a folder with these names in it for a repository without `.git`, and obeys its settings."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def is_stand_in(path: Path) -> bool:
    """Is it an empty directory that only holds the place of a control file while a command runs (tools/sandbox.py)?

    A crash may leave one behind. Nobody may write into it, whatever the process masks out of the mode of new ones.
    """
    try:
        mode = os.lstat(path).st_mode
        return stat.S_ISDIR(mode) and not mode & 0o222 and not os.listdir(path)
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Whether a program would find a control file here, be it a link that leads nowhere: a stand-in is none.

    Looked at once more when it is gone meanwhile: other agents' commands end at any moment.
    """
    return os.path.lexists(path) and not is_stand_in(path) and os.path.lexists(path)
