import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { text as textOf } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BARE_ENV } from "../support/agents/bare-env.ts";
import { SseReader } from "../support/clients/sse-reader.ts";
import { describeWith } from "../support/programs/suites.ts";
import { freePort } from "../support/servers/free-port.ts";
import { askDatabase, POSTGRES } from "../support/servers/postgres-server.ts";
import { REDIS } from "../support/servers/redis-server.ts";
import { serverOf } from "../support/servers/shared-server.ts";
import { readPage, root } from "./page.ts";

/** The addresses of the store and the bus on the pages. */
const SHOWN_STORE = "postgres://interlock:secret@127.0.0.1/interlock";
const SHOWN_BUS = "redis://127.0.0.1";

const { blocks: operations } = readPage("docs/operate/operations.md");
/** The shell block that contains this text, and the output shown for it. */
const shown = (part: string): [sh: string, printed: string] => {
  const index = operations.findIndex(({ info, text }) => info === "sh" && text.includes(part));
  return [operations[index]!.text, operations[index + 1]!.text];
};
const WORDS = /"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g;
const wordsOf = (line: string) =>
  [...line.matchAll(WORDS)].map(([, double, single, plain]) => double ?? single ?? plain!);

describeWith([POSTGRES, REDIS], "several nodes as the pages show them", (startPostgres, startRedis) => {
  const postgres = serverOf(startPostgres);
  const closing: (() => unknown)[] = [];
  let store: string;
  let bus: string;

  beforeAll(async () => {
    const server = await startRedis();
    closing.push(() => server.stop());
    bus = server.url;
    const { url, drop } = await postgres().makeDatabase();
    closing.push(drop);
    store = url;
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });

  const run = (words: readonly string[], env: Record<string, string> = {}): ChildProcess => {
    const child = spawn(process.execPath, words, {
      cwd: root,
      env: { ...BARE_ENV, ...env },
      stdio: ["ignore", "pipe", "ignore"],
    });
    closing.push(() => child.kill("SIGKILL"));
    return child;
  };

  /** The nodes of docs/operate/operations.md on free ports, by the port on the page. */
  async function startNodes(): Promise<{ printed: string; url: string; stop(): Promise<void> }> {
    const [sh] = shown("--roles gateway");
    const [first, ...lines] = sh.replace(SHOWN_STORE, store).replace(SHOWN_BUS, bus).trim().split("\n");
    const env = Object.fromEntries(
      wordsOf(first!)
        .slice(1)
        .map((word) => word.split(/=(.*)/s).slice(0, 2)),
    );
    expect(Object.keys(env)).toEqual(["INTERLOCK_STORE", "INTERLOCK_BUS"]);
    const nodes: ChildProcess[] = [];
    let printed = "";
    let url = "";
    for (const line of lines) {
      const [npm, exec, dashes, node, ...words] = wordsOf(line);
      expect([npm, exec, dashes, node]).toEqual(["npm", "exec", "--", "node"]);
      const at = words.indexOf("--port") + 1;
      const shownPort = at > 0 ? words[at]! : "3000";
      const port = String(await freePort());
      const child = run(at > 0 ? words.with(at, port) : words, { ...env, ...(at === 0 && { PORT: port }) });
      nodes.push(child);
      const [said] = await once(child.stdout!.setEncoding("utf8"), "data");
      printed += `${String(said).split("\n", 1)[0]!.replace(port, shownPort)}\n`;
      if (line.includes("gateway")) url = `http://127.0.0.1:${port}`;
    }
    const stop = async () => {
      const ended = nodes.map((node) => once(node, "exit"));
      for (const node of nodes) node.kill("SIGTERM");
      expect(await Promise.all(ended)).toEqual(nodes.map(() => [0, null]));
    };
    return { printed, url, stop };
  }

  const ask = async (url: string, path: string, body?: object) => {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(url + path, body && { method: "POST", headers, body: JSON.stringify(body) });
    return (await answer.json()) as { success: boolean; position: string; runId: string };
  };

  test("the nodes of docs/operate/operations.md print what is shown, and a turn passes through all of them", async () => {
    const { printed, url, stop } = await startNodes();
    expect(printed).toBe(shown("--roles gateway")[1]);
    expect(await ask(url, "/session/create", { id: "talk", agentId: "general", activate: true })).toMatchObject({
      success: true,
    });
    const stream = await SseReader.open(`${url}/session/talk/events`);
    const { runId } = await ask(url, "/message", { type: "chat", sessionId: "talk", content: "hello" });
    await stream.until(({ type, data }) => type === "complete" && data["runId"] === runId);
    await stream.close();
    await stop();
  });

  test("the queue is found by the epoch, as docs/operate/operations.md shows", async () => {
    const [sql] = /'(SELECT [^']+)'/.exec(shown("SELECT epoch")[0])!.slice(1);
    const [row] = await askDatabase(store, sql!);
    const [sh] = shown("getJobCounts");
    const { hostname, port } = new URL(bus);
    const [, , , , ...words] = wordsOf(sh.replace("$epoch", String(row!["epoch"])));
    expect(words.slice(-2)).toEqual(["127.0.0.1", "6379"]);
    const printed = await textOf(run([...words.slice(0, -2), hostname, port]).stdout!);
    const none = '{"active":0,"prioritized":0,"waiting":0,"delayed":0}';
    expect(printed).toBe(`runs ${none}\nalarms ${none}\n`);
  });

  test("after a restored store got a new epoch, clients read from the beginning", async () => {
    const before = await startNodes();
    const { position } = await ask(before.url, "/session/talk");
    await before.stop();
    await askDatabase(store, /"(UPDATE [^"]+)"/.exec(shown('psql "$INTERLOCK_STORE" -c')[0])![1]!);
    const after = await startNodes();
    const stream = await SseReader.open(`${after.url}/session/talk/events`, { "Last-Event-ID": position });
    expect((await stream.next()).type).toBe("reset");
    expect((await ask(after.url, "/session/talk")).position).toMatch(/^r1\./);
    await stream.close();
    await after.stop();
  });
});
