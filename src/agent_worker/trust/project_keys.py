"""The keys that a project brings in its `.env`: read here, and a power of the project, so used once it is approved.

Only keys are taken from that file: the variables of model providers that hold one, and those that agents name as
`api_key`. Addresses, headers and proxies are not: with them a repository could lead a key of the user's elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.core.later import pattern
from agent_worker.core.provider_variables import KEY_VARIABLES, owner_of
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import RefMember
from agent_worker.files.root import Root
from agent_worker.trust.contents import digest_of
from agent_worker.trust.powers import Power
from agent_worker.trust.preview import revealed

FILE = ".env"
_LARGEST = 64 * 1024
_LINE = pattern(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = pattern(r"""(["'])(.*?)\1\s*(?:#.*)?""")


def keys_in_env_file(project: ProjectFiles) -> dict[str, str]:
    """The keys in the project's `.env`; none when there is no such file, or it cannot be read (`unread`)."""
    return keys_in(_read(project.root)[0], named=_named_by_agents(project))


def unread(root: Path) -> str:
    """Why the `.env` of this project gives no keys, as a sentence: it is there, and cannot be read. Else empty."""
    return _read(root)[1]


def _read(root: Path) -> tuple[str, str]:
    """The text of the file, and why there is none. A folder of that name is of other tools, and no mistake."""
    if (root / FILE).is_dir():
        return "", ""
    try:
        return Root(root).read_text(FILE, limit=_LARGEST), ""
    except NotFound:
        return "", ""
    except AgentWorkerError as error:
        return "", f"the keys in {FILE} are not used: {error.message}"
    except OSError as error:
        return "", f"the keys in {FILE} are not used: it cannot be read: {os.strerror(error.errno or 0)}"


def keys_in(text: str, *, named: Collection[str] = ()) -> dict[str, str]:
    """Keys in lines such as `NAME=value`, `export NAME="value"`. Nothing is put in for `$OTHER`, nothing is run."""
    found = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
    values = {line[1]: _value(line[2]) for line in found if line}
    return {name: value for name, value in values.items() if value and (name in KEY_VARIABLES or name in named)}


def power_of_keys(project: ProjectFiles, keys: Mapping[str, str]) -> tuple[Power, ...]:
    """What has to be approved before these are used: their names are shown, and another value is another power."""
    if not keys:
        return ()
    names = ", ".join(sorted(keys))
    what = f"the project's {FILE} gives its agents the keys {names}"
    digest = digest_of("keys", FILE, sorted(keys.items()))
    return (Power("keys", project.definition.name, FILE, revealed(what), what, digest),)


def _value(text: str) -> str:
    if quoted := _QUOTED.fullmatch(text):
        return quoted[2]
    return re.split(r"\s#", text, maxsplit=1)[0].strip()


def _named_by_agents(project: ProjectFiles) -> set[str]:
    """Variables that agents name as `api_key`; those of providers that hold no key are none, whoever calls them so."""
    inline = (m for w in project.workflows.values() for m in w.agents.values() if not isinstance(m, RefMember))
    providers = (each.provider for each in (*project.agents.values(), *inline))
    named = {each.key_variable for each in providers if each is not None}
    return {variable for variable in named if variable and not owner_of(variable)}
