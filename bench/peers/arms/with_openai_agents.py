"""OpenAI Agents SDK: `Runner.run`; the pair is two agents that are handed each other's words. Tracing is off."""

from contest import LOOP_LIMIT, MODEL, SYSTEM, Arm, add, enter, task

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled

set_tracing_disabled(True)
set_default_openai_api("chat_completions")
ADD = function_tool(add)


class OpenaiAgents(Arm):
    async def alone(self, steps):
        agent = Agent(name="adder", instructions=SYSTEM, model=MODEL, tools=[ADD])
        result = await Runner.run(agent, task(steps), max_turns=LOOP_LIMIT)
        return result.final_output

    def speaker(self, name):
        agent = Agent(name=name, instructions=f"You are {name}.", model=MODEL)

        async def speak(text):
            return (await Runner.run(agent, text)).final_output

        return speak


if __name__ == "__main__":
    enter(OpenaiAgents)
