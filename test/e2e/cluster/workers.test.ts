import { beforeAll, expect, test } from "vitest";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { within } from "../../support/runner/within.ts";

const SONG = Array.from({ length: 80 }, (_, n) => `la${n} `);
const WHOLE = SONG.join("");
const sings = { kind: "scripted", replies: [{ say: SONG, delay: "50ms" }] };

const CATALOG = {
  agents: [
    { name: "singer", adapter: sings },
    { name: "teller", adapter: { ...sings, restartable: false } },
  ],
};

/** A run whose worker is gone is restarted, or given up, within 10 s; on two busy cores within three times that. */
const NOTICED_MS = 30_000;

describeClusters("a lost worker", (servers) => {
  const atEnd = atEndOfSuite();
  let cluster: Cluster;
  let gateway: ChildServer;
  let workers: ChildServer[];

  beforeAll(async () => {
    cluster = await Cluster.make(servers, { catalog: CATALOG, atEnd });
    [gateway, , ...workers] = await cluster.startAll(["gateway"], ["orchestrator"], ["worker"], ["worker"], ["worker"]);
  }, 60_000);

  const textsOf = (reader: SessionReader) => [...reader.transcript.writing.values()];
  const speaks = (reader: SessionReader, words: string) =>
    reader.until(() => textsOf(reader).some((text) => text.includes(words)));
  const drivenBy = (worker: ChildServer) => worker.metric('interlock_runs{state="driven"}');

  /** The workers that run something. */
  async function driving(): Promise<ChildServer[]> {
    const counts = await Promise.all(workers.map(drivenBy));
    return workers.filter((_, index) => counts[index]! > 0);
  }

  /** A session whose reply is being streamed, and the stored part of it. */
  async function sing(id: string, agentId: string): Promise<{ reader: SessionReader; runId: string; stored: string }> {
    await create(gateway, id, agentId);
    const reader = await SessionReader.of(gateway, id);
    const runId = await say(gateway, id, "sing");
    await within(NOTICED_MS, "beginning", speaks(reader, "la5 "));
    // It is stored at most a quarter of a second later.
    let stored = "";
    while (stored === "")
      stored = (await messagesOf(gateway, id)).find(({ role }) => role === "assistant")?.content ?? "";
    return { reader, runId, stored };
  }

  /** Waits for the end of a song that began again. @returns what the first attempt sang */
  async function sungTwice(reader: SessionReader, id: string): Promise<string> {
    await within(NOTICED_MS, "coming to an end", reader.has(id, "complete"));
    const [, first, second, ...more] = await messagesOf(gateway, id);
    expect(more).toEqual([]);
    expect([first!.status, second!.status, second!.content]).toEqual(["interrupted", "success", WHOLE]);
    return first!.content;
  }

  test("runs of a killed worker restart on another worker or fail, and their text is kept", async () => {
    const [song, tale] = await Promise.all([sing("song", "singer"), sing("tale", "teller")]);
    const dying = await driving();
    expect(dying.length).toBeGreaterThan(0);
    workers = workers.filter((worker) => !dying.includes(worker));
    await Promise.all(dying.map((worker) => worker.kill()));
    // The message in progress when the worker died is closed with its stored text; then the reply starts again.
    const begins = song.reader.until(
      () =>
        textsOf(song.reader).some((text) => text.startsWith("la0 la1 ")) &&
        song.reader.eventsOf("song", "message").length > 0 &&
        song.reader.transcript.finished.size === 2,
    );
    const [againMs, failedMs] = await Promise.all([
      within(NOTICED_MS, "beginning again", begins),
      within(NOTICED_MS, "giving up", tale.reader.has("tale", "complete")),
    ]);
    console.info(`a killed worker's run began again after ${againMs} ms, another's failed after ${failedMs} ms`);

    const [, cut] = await messagesOf(gateway, "tale");
    expect(cut!.status).toBe("interrupted");
    expect(cut!.content.startsWith(tale.stored)).toBe(true);
    const errors = tale.reader.eventsOf("tale", "error");
    expect(errors.map(({ data }) => [data.errorCode, data.runId])).toEqual([["run_lost", tale.runId]]);
    expect((await gateway.ask("GET", "/session/tale")).body.session).toMatchObject({ activity: "failed" });

    expect((await sungTwice(song.reader, "song")).startsWith(song.stored)).toBe(true);
    for (const { reader } of [song, tale]) reader.check();
  }, 90_000);

  test("the output of a lost worker's old attempt reaches no reader when the worker returns", async () => {
    workers.push(await cluster.start(["worker"]));
    const { reader, runId } = await sing("long", "singer");
    const [frozen, ...more] = await driving();
    expect(more).toEqual([]);
    frozen!.freeze();
    const isCutOff = reader.until(({ finished }) => finished.size === 2);
    await within(NOTICED_MS, "beginning again", isCutOff);
    await within(NOTICED_MS, "speaking again", speaks(reader, "la0 la1 "));
    frozen!.thaw();
    // The worker is told that the run must not continue.
    await expect.poll(() => drivenBy(frozen!), { timeout: NOTICED_MS }).toBe(0);
    await sungTwice(reader, "long");
    expect(reader.eventsOf("long", "complete").map(({ data }) => data.runId)).toEqual([runId]);
    reader.check();
  }, 90_000);
});
