"""Where the program begins. It imports nothing before somebody listens for Ctrl-C: a person may press it at once.

That holds for the packages above this module too, which are imported first.
"""

import sys


def main() -> None:
    try:
        from agent_worker.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
