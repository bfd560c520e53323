import { createInterface } from "node:readline";

/** An MCP server for tests that breaks the protocol as the called tool says. */
interface Message {
  id?: number;
  method: string;
  params?: { name?: string; requestId?: number };
}

const TOOLS = ["good", "late", "seen", "cancelled", "strange", "twice", "empty", "deep"];
const print = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const say = (text: string) => ({ result: { content: [{ type: "text", text }] } });
/** The names of the calls, by their ids. */
const calls = new Map<number, string>();
const cancelled: number[] = [];

function answer(id: number, name: string): void {
  switch (name) {
    case "late":
      return;
    case "seen":
      print({ id, ...say([...calls.values()].join()) });
      return;
    case "cancelled":
      // The answers to cancelled calls are sent all the same.
      for (const each of cancelled) print({ id: each, ...say("too late") });
      print({ id, ...say(cancelled.map((each) => calls.get(each)).join()) });
      return;
    case "strange":
      for (const each of [id + 1_000, `${id}`, `0x${id.toString(16)}`, -1]) print({ id: each, ...say("bad") });
      print({ id, ...say("good") });
      return;
    case "twice":
      print({ id, ...say("good") });
      print({ id, ...say("bad") });
      return;
    case "empty":
      print({ id });
      return;
    case "deep":
      process.stdout.write(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":${'{"a":'.repeat(500)}1${"}".repeat(502)}\n`,
      );
      return;
    default:
      print({ id, ...say(name) });
  }
}

for await (const line of createInterface(process.stdin)) {
  const { id, method, params } = JSON.parse(line) as Message;
  if (method === "notifications/cancelled") cancelled.push(params!.requestId!);
  if (id === undefined) continue;
  if (method === "initialize") {
    const serverInfo = { name: "x", version: "1" };
    print({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") {
    print({ id, result: { tools: TOOLS.map((name) => ({ name, inputSchema: { type: "object" } })) } });
  } else {
    calls.set(id, params!.name!);
    answer(id, params!.name!);
  }
}
