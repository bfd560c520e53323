import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createMCPClient } from "@ai-sdk/mcp";
import { afterAll, expect, test } from "vitest";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { codeOf, mentions, readPage, root, tablesOf } from "./page.ts";
import { difference, expectShown, requestsOf, SHOWN_URL, send } from "./shown.ts";

const page = readPage("docs/use/doors.md");
const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** Run a program of the page in a separate process, below the packages that it imports. */
async function run(name: string): Promise<string> {
  const { text } = page.blocks.find(({ info }) => info === `js ${name}`)!;
  const file = join(root, `node_modules/.doors-${name}-${process.pid}.mjs`);
  await writeFile(file, text.replaceAll(SHOWN_URL, node.url));
  try {
    const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stdout.on("data", (bytes) => (said += bytes));
    child.stderr.on("data", (bytes) => (said += bytes));
    const [code] = await once(child, "close");
    expect(code, said).toBe(0);
    return said;
  } finally {
    await rm(file);
  }
}

test.each(["docs/use/doors.md", "docs/use/doors.zh.md"])(
  "%s has every tool of the MCP server, with its input",
  async (path) => {
    const client = await createMCPClient({ transport: { type: "http", url: `${node.url}/mcp` } });
    const { tools } = await client.listTools();
    await client.close();
    const [rows] = tablesOf(readPage(path), ...(path.endsWith(".zh.md") ? ["工具", "输入"] : ["tool", "input"]));
    expect(rows!.flatMap(([names]) => codeOf(names!)).sort()).toEqual(tools.map(({ name }) => name).sort());
    for (const { name, inputSchema } of tools) {
      const [, input] = rows!.find(([names]) => codeOf(names!).includes(name))!;
      const missing = Object.keys(inputSchema.properties ?? {}).filter((field) => !mentions(input!, field));
      expect(missing, name).toEqual([]);
    }
  },
);

test("the commands of docs/use/doors.md answer as shown", async () => {
  expect(await expectShown(page, node.url)).toBeGreaterThanOrEqual(2);
});

test("the stream of docs/use/doors.md begins as shown", async () => {
  const at = page.blocks.findIndex(({ info, text }) => info === "sh" && requestsOf(text)![0]!.isStream);
  const answer = await send(requestsOf(page.blocks[at]!.text)![0]!, node.url);
  const framesIn = (text: string) =>
    [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json]) => JSON.parse(json!) as object);
  const sent = framesIn(await answer.text());
  for (const [index, shown] of framesIn(page.blocks[at + 1]!.text).entries()) {
    expect(difference(shown, sent[index])).toBeUndefined();
  }
});

test("the programs of docs/use/doors.md for OpenAI's client run unchanged", async () => {
  expect(await run("openai")).toBe("Hello there.");
  expect(await run("responses")).toBe("You said: and now?");
});

test("the program of docs/use/doors.md for MCP runs unchanged", async () => {
  expect(await run("mcp")).toMatch(/^\S.* Hello there\.$/);
});

test("the program of docs/use/doors.md for a voice speaks the reply, and the sentence of a refusal", async () => {
  expect(await run("voice")).toBe("Hello there.");
  const phone = { agentId: "phone", userId: "dave", activate: true };
  expect((await node.post("/session/create", phone)).status).toBe(200);
  expect(await run("voice")).toMatch(/^\S.+\.$/);
  expect((await node.get("/session/driver")).body.session.state).toBe("paused");
});
