"""Changes a key in YAML that a person wrote, and leaves all else as it was: comments, order, quotes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from agent_worker.core.errors import BadInput


def rewritten(text: str, changes: Mapping[str, Any], *, keys: Iterable[str], file: str) -> str:
    """With these keys set, and those whose value is None taken out. `keys` are those of the text, as we read them."""
    from ruamel.yaml import YAML  # heavy, and needed only when something is written
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.allow_unicode = True
    yaml.width = 110
    known = list(keys)
    try:
        data = yaml.load(text) if known else {}
    except YAMLError:
        raise BadInput(f"{file}: two of its keys are the same number", hint="put them in quotes") from None
    # ruamel makes numbers and dates of some keys, which to us are text; but both keep their order.
    there = dict(zip(known, data, strict=True))
    for key, value in changes.items():
        if value is None:
            data.pop(there.get(key, key), None)
        else:
            data[there.get(key, key)] = value
    out = io.StringIO()
    yaml.dump(data, out)
    return (_comments(text) if not known or not data else "") + (out.getvalue() if data else "")


def _comments(text: str) -> str:
    """The comments of a file without entries, where ruamel has nothing to hang them on."""
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith("#") or not line.strip())
