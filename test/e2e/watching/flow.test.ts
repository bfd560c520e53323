import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { HOPS, type Hop } from "../../../src/shared/flow.ts";
import { create, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/inside/architecture.md"), "utf8");
const tables = page.slice(page.indexOf("## How a command flows"), page.indexOf("## Principles"));

test("the hops have the files of the three tables in architecture.md, in their order", () => {
  let at = 0;
  for (const [hop, file] of Object.entries(HOPS)) {
    at = tables.indexOf(file, at);
    expect(at, `${hop}, after the hop before it`).toBeGreaterThan(0);
  }
});

test("each hop is reported by the file that it names", () => {
  for (const [hop, file] of Object.entries(HOPS)) {
    const source = readFileSync(join(import.meta.dirname, "../../../src", file), "utf8");
    expect(source, file).toMatch(new RegExp(`flow\\.onHop\\?\\.\\(\\s*"${hop}"`));
  }
});

test("`interlock serve --trace-flow` prints each hop of a message, from its socket to the first delta of its reply", async () => {
  const echo = { name: "echo", priority: 1, adapter: { kind: "scripted" } };
  const installation = await makeInstallation({ agents: [echo] });
  const node = await installation.start({ flags: ["--trace-flow"] });
  await create(node, "talk", "echo", { userId: "ann", activate: false });
  const reader = await SessionReader.of(node, "talk");
  const before = node.stdout.length;
  await say(node, "talk", "Hello");
  await reader.stream.next("message");
  const unseen: Hop[] = ["caller", "postgres", "connection"];
  const hops = Object.entries(HOPS).filter(([hop]) => !unseen.includes(hop as Hop));
  const run = hops.findIndex(([hop]) => hop === "run");
  // The reader gets the message's frames while a worker takes the run.
  for (const part of [hops.slice(0, run), hops.slice(run)]) {
    await expect.poll(() => node.stdout.slice(before)).toMatch(new RegExp(part.map(([, file]) => file).join("[^]*")));
  }
  expect(node.stdout).not.toMatch(/done; *$/m);
  expect(node.stdout).toMatch(/^ +\+\d+\.\d\d ms {2}cluster\/mailbox\.ts +session\.\w+ to u:ann, on this node$/m);
});
