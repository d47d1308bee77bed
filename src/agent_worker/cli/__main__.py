"""`python -m agent_worker.cli`, for where the command is not on the path."""

from agent_worker.cli.main import main

main()
