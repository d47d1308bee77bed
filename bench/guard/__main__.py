"""What the Guard promises, measured: a section for each promise.

    uv run python bench/guard [--only finds] [--model anthropic/claude-haiku-5-5] [--write docs/figures/guard.md]

A promise is a module beside this one with a function `measure`; name it in PROMISES to have it on the page. With a
model, whose key is in the environment, what it adds is measured too.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

PROMISES = ("finds", "current", "clean", "budget", "private", "poison", "identity", "cost", "with_model")
WRITTEN = "Written by `uv run python bench/guard --write docs/figures/guard.md`.\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="promises, separated by commas")
    parser.add_argument(
        "--model", action="append", help="that a section is measured with, also several; its key is in the environment"
    )
    parser.add_argument("--write", type=Path, help="also write the page here")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else PROMISES
    given = {"with_model": [{"model": model} for model in options.model or (None,)]}
    sections = [
        import_module(f"guard.{name}").measure(**arguments).markdown()
        for name in names
        for arguments in given.get(name, [{}])
    ]
    page = "\n".join(["# What the Guard promises\n", WRITTEN, *sections])
    print(page)
    if options.write:
        options.write.write_text(page)


if __name__ == "__main__":
    main()
