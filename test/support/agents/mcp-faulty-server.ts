import { createInterface } from "node:readline";

/** An MCP server for tests that breaks the protocol as the called tool says. */
interface Message {
  id?: number;
  method: string;
  params?: { name?: string; requestId?: number };
}

const print = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const say = (text: string) => ({ result: { content: [{ type: "text", text }] } });
/** The names of the calls, by their ids. */
const calls = new Map<number, string>();
const cancelled: number[] = [];

const ANSWERS: Record<string, (id: number) => unknown> = {
  good: (id) => print({ id, ...say("good") }),
  late: () => {},
  seen: (id) => print({ id, ...say([...calls.values()].join()) }),
  cancelled: (id) => {
    // The answers to cancelled calls are sent all the same.
    for (const each of cancelled) print({ id: each, ...say("too late") });
    print({ id, ...say(cancelled.map((each) => calls.get(each)).join()) });
  },
  strange: (id) => {
    for (const each of [id + 1_000, `${id}`, `0x${id.toString(16)}`, -1]) print({ id: each, ...say("bad") });
    print({ id, ...say("good") });
  },
  twice: (id) => {
    print({ id, ...say("good") });
    print({ id, ...say("bad") });
  },
  empty: (id) => print({ id }),
  deep: (id) => {
    const nested = `${'{"a":'.repeat(500)}1${"}".repeat(500)}`;
    process.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":${nested}}}\n`);
  },
};

for await (const line of createInterface(process.stdin)) {
  const { id, method, params } = JSON.parse(line) as Message;
  if (method === "notifications/cancelled") cancelled.push(params!.requestId!);
  if (id === undefined) continue;
  if (method === "initialize") {
    const serverInfo = { name: "x", version: "1" };
    print({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    print({ id, result: { tools: Object.keys(ANSWERS).map((name) => ({ name, inputSchema: { type: "object" } })) } });
  } else {
    calls.set(id, params!.name!);
    ANSWERS[params!.name!]!(id);
  }
}
