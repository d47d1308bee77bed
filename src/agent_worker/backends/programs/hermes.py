"""Hermes Agent: your own Hermes, with its memory, its skills and its model, as a member of a team.

It is started with the user's Hermes home (HERMES_HOME, else the usual one): who it is stays what it is there, and our
prompt comes first in its session. It takes tools over HTTP without saying so, if its part for MCP is installed. Tried
with 0.19.0.
"""

from __future__ import annotations

from agent_worker.backends.programs.acp import PlainWords
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.runner import Launch

INSTALL = "uv tool install 'hermes-agent[acp,mcp]'"


class Hermes:
    farewell = 2.0

    def launch(self, job: ProgramJob) -> Launch:
        program = job.program
        binary = program.binary("hermes", install=INSTALL)
        prompt = job.prompt if job.session.id else f"{job.system}\n\n{job.prompt}"
        env = program.environment() | program.given("HERMES_HOME")
        return Launch((binary, "acp"), program.cwd, env, prompt, (job.entry.token,))

    def words(self, job: ProgramJob) -> PlainWords:
        return PlainWords(job)
