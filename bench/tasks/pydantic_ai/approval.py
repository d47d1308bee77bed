from orders import refund
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool

clerk = Agent(
    "openai-chat:fake",
    instructions="You refund orders.",
    tools=[Tool(refund, requires_approval=True)],
    output_type=[str, DeferredToolRequests],
)
result = clerk.run_sync("Refund order 7.")
approved = DeferredToolResults(approvals={call.tool_call_id: True for call in result.output.approvals})
print(clerk.run_sync(message_history=result.all_messages(), deferred_tool_results=approved).output)
