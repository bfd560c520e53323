import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const CLIENTS = 16;
/** Commands of each client between two collections. */
const COMMANDS = 10;
const REPETITIONS = 10;

/** A heap that is large at once has no major collection in a short test. */
async function startNode(): Promise<{ child: ChildProcess; url: string }> {
  const script = fileURLToPath(new URL("../support/nodes/collecting-node.ts", import.meta.url));
  const child = fork(script, { execArgv: ["--no-warnings", "--initial-heap-size=3000"], stdio: "inherit" });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    if (child.connected) child.disconnect();
    await exited;
  });
  const [url] = await once(child, "message");
  return { child, url };
}

async function post(agent: Agent, url: string, body?: object): Promise<string> {
  const json = JSON.stringify(body ?? {});
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(json) };
  const asked = request(url, { method: "POST", agent, headers });
  asked.end(json);
  const [answer] = await once(asked, "response");
  const text = Buffer.concat(await answer.toArray()).toString();
  expect([answer.statusCode, text]).toEqual([200, text]);
  return text;
}

test("what a command made is garbage for a minor collection once the command is answered", async () => {
  const { child, url } = await startNode();
  const agents = Array.from({ length: CLIENTS }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  onTestFinished(() => {
    for (const agent of agents) agent.destroy();
  });
  const ids = await Promise.all(
    agents.map(async (agent): Promise<string> => {
      const created = await post(agent, `${url}/session/create`, { agentId: "music", activate: true });
      return JSON.parse(created).session.id;
    }),
  );
  let turn = 0;
  async function work(): Promise<number> {
    for (let count = 0; count < COMMANDS; count++, turn++) {
      const command = turn % 2 ? "resume" : "pause";
      await Promise.all(agents.map((agent, client) => post(agent, `${url}/session/${ids[client]}/${command}`)));
    }
    const told = once(child, "message");
    child.send("collect");
    return (await told)[0];
  }
  let before = 0;
  for (let warmUp = 0; warmUp < 12; warmUp++) before = await work();
  let after = before;
  for (let repetition = 0; repetition < REPETITIONS; repetition++) after = await work();
  // The floors' present states become old: some hundred bytes for each command. A request is ten thousand.
  expect((after - before) / (REPETITIONS * COMMANDS * CLIENTS)).toBeLessThan(2_500);
});
