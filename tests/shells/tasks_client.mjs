// A program that uses MCP's own libraries for clients and for tasks: asks an agent, answers what it asks, stops another.
// node tasks_client.mjs NODE_MODULES URL TOKEN PROJECT
import { pathToFileURL } from "node:url";
import path from "node:path";

const [modules, url, token, project] = process.argv.slice(2);
const from = (file) => import(pathToFileURL(path.join(modules, "@modelcontextprotocol", file)));
const { Client, StreamableHTTPClientTransport } = await from("client/dist/index.mjs");
const { createTaskSessionFromClient, createApplicationInputHandler } = await from("ext-tasks/dist/client/index.js");

const version = "2026-07-28";
const info = { name: "tasks-client", version: "1" };
const capabilities = { elicitation: { form: {} } };
const headers = { authorization: `Bearer ${token}` };

const client = new Client(info, { capabilities, versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

let requests = 0;
async function dispatch(request) {
  const id = ++requests;
  const name = request.params.name ?? request.params.taskId;
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": version,
      "mcp-method": request.method,
      "mcp-name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, ...request }),
  });
  const { result, error } = await answer.json();
  return error ? { kind: "error", error } : { kind: "result", result };
}

const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "agent-worker",
  rawDispatch: dispatch,
  v2RequestFraming: { protocolVersion: version, clientInfo: info, clientCapabilities: capabilities },
  onInputRequest: createApplicationInputHandler({
    elicitation: async (request) => {
      asked.push(request.params.message);
      return { action: "accept", content: { answer: "b" } };
    },
    sampling: async () => { throw new Error("nobody samples here"); },
    roots: async () => { throw new Error("nobody asks for roots here"); },
  }),
});

const execution = await session.callTool("agent_ask", { project, agent: "alice", message: "choose" });
const { outcome } = await execution.settle();

const silent = createTaskSessionFromClient(
  await (async () => {
    const other = new Client(info, { versionNegotiation: { mode: "auto" } });
    await other.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    return other;
  })(),
  {
    endpointId: "agent-worker",
    rawDispatch: dispatch,
    v2RequestFraming: { protocolVersion: version, clientInfo: info, clientCapabilities: {} },
  },
);
const second = await silent.callTool("agent_ask", { project, agent: "bob", message: "choose" });
await second.cancel();
const ended = await second.settle();

console.log(JSON.stringify({
  era: client.getProtocolEra(),
  kind: execution.kind,
  asked,
  outcome: { status: outcome.status, data: outcome.result?.structuredContent },
  second: { kind: second.kind, status: ended.outcome.status },
}));
await session.close();
await silent.close();
process.exit(0);
