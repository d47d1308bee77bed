"""`${{ name }}`: how it is written, and what a name is called as an environment variable.

There is no expression language: a name, or two joined by a dot. `$${{` is how to write `${{` itself.
Every part of the pattern is bounded, so a search takes linear time on any text.
"""

from __future__ import annotations

import re

from agent_worker.core.later import pattern

_WORD = r"[A-Za-z_][A-Za-z0-9_-]{0,62}"
PLACEHOLDER = pattern(
    rf"(?P<escaped>\$\$\{{\{{)|\$\{{\{{(?:[ \t]{{0,16}}(?P<name>{_WORD}(?:\.{_WORD})?)[ \t]{{0,16}}\}}\}})?"
)
OUTPUT = pattern(_WORD)

#: The first words of dotted names; a set-up output cannot be called so.
SPACES = frozenset({"params", "env", "workflow", "context", "source"})
BUILT_IN = (
    "workflow.name",
    "workflow.tag",
    "workflow.instance",
    "instance",  # the same, as it was written once
    "context.channel",
    "context.document",
    "source.dir",
)

# Variables that change what the shell, the linker or a common program does, rather than tell it something.
_POWERFUL = pattern(
    r"(?:PATH|HOME|IFS|ENV|SHELL|USER|LOGNAME|PWD|OLDPWD|CDPATH|TMPDIR|TMP|TEMP|TERM|LANG|LANGUAGE|TZ|OPTIND|OPTARG"
    r"|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|GLOBIGNORE|FPATH|FUNCNEST|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER"
    r"|HTTPS?_PROXY|ALL_PROXY|NO_PROXY|LESSOPEN|LESSCLOSE|CC|CXX|GOROOT|GOPATH|GOFLAGS|GOPROXY|MAKEFLAGS)"
    r"|(?:LC|LD|DYLD|BASH|GIT|SSH|GPG|NODE|NPM|PYTHON|PERL|RUBY|JAVA|_JAVA|JDK|UV|PIP|CARGO|RUST|DOCKER|AWS|CURL"
    r"|SSL|OPENSSL|XDG|AGENT_WORKER|ANTHROPIC|OPENAI|CLAUDE)_\w*|(?:ZSH|PYTHON|PERL|RUBY|RUST)\w*"
)
_SECRET = pattern(
    r"(?:^|_)(?:KEYS?|PASS|PASSPHRASE|PWD|PW|CREDS?|AUTH|AUTHORIZATION|BEARER|JWT|PAT|COOKIE|SESSION|PRIVATE|CERT|DSN"
    r"|SALT|SIGNATURE|WEBHOOK|NETRC|PGPASSFILE)(?:_|$)"
    r"|TOKEN|SECRET|PASSW|CREDENTIAL|APIKEY|PRIVATEKEY|ACCESSKEY"
    r"|(?:DATABASE|REDIS|MONGO|MONGODB|POSTGRES|DB)_UR[LI]$|CONNECTION_STRING$",
    re.IGNORECASE,
)


def names_in(text: str) -> list[str]:
    """Each name that the text asks for, once, in order."""
    return list(dict.fromkeys(match["name"] for match in PLACEHOLDER.finditer(text) if match["name"]))


def malformed_in(text: str) -> list[str]:
    """The beginnings of what looks like a placeholder but asks for no name."""
    return [
        text[match.start() : match.start() + 40]
        for match in PLACEHOLDER.finditer(text)
        if not (match["name"] or match["escaped"])
    ]


def variable_of(name: str) -> str:
    """`params.target` → `PARAMS_TARGET`."""
    return name.replace(".", "_").replace("-", "_").upper()


def is_powerful(variable: str) -> bool:
    """Whether a variable must not be set to a value from outside."""
    return _POWERFUL.fullmatch(variable) is not None


def is_secret(variable: str) -> bool:
    """Whether a variable, by its name, holds something that must not be written into a prompt."""
    return _SECRET.search(variable) is not None
