// A program that uses the protocol's own TypeScript library: one session, two prompts, what was told as JSON.
//   node acp_client.mjs SDK CWD WHO COMMAND [ARGUMENT ...]
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, who, command, ...rest] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"], cwd });
const told = { updates: [], asked: [] };
const { client: theirs, agent: ours } = acp.methods;
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const client = acp
  .client({ name: "a test" })
  .onNotification(theirs.session.update, ({ params }) => {
    told.updates.push(params.update);
  })
  .onRequest(theirs.session.requestPermission, ({ params }) => {
    told.asked.push({ title: params.toolCall.title, options: params.options.map((each) => each.optionId) });
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });
await client.connectWith(stream, async (agent) => {
  told.greeting = await agent.request(ours.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agent.request(ours.session.new, { cwd, mcpServers: [] });
  await agent.request(ours.session.setConfigOption, { sessionId, configId: "who", value: who });
  const prompt = (text) => agent.request(ours.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  told.first = await prompt("@careful go");
  told.second = await prompt("hello");
  told.sessions = (await agent.request(ours.session.list, { cwd })).sessions.map((each) => each.title);
  await agent.request(ours.session.load, { sessionId, cwd, mcpServers: [] });
});
console.log(JSON.stringify(told));
child.stdin.end();
child.on("exit", (code) => process.exit(code ?? 1));
