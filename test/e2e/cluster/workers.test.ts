import { expect, test } from "vitest";
import type { ListedRun } from "../../../src/protocol/listed-run.ts";
import { makeDelegatingModels } from "../../support/agents/delegating-models.ts";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { StallingProxy } from "../../support/networks/stalling-proxy.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";
import { within } from "../../support/runner/within.ts";
import { type ProviderReply, type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";

const SONG = Array.from({ length: 80 }, (_, n) => `la${n} `);
const WHOLE = SONG.join("");
/** A reply that stops after the song's first words, until `pause` is settled. */
const sing = (pause?: Promise<unknown>): ProviderReply => ({
  kind: "stream",
  text: [SONG.slice(0, 6).join(""), ...SONG.slice(6)],
  ...(pause && { pause }),
});
const FOREVER = new Promise<never>(() => {});

const confirm = { tool: "delete_file", arguments: { path: "a.txt" } };
const deletes = { kind: "scripted", replies: [{ confirm, say: ["Deleted."], otherwise: ["Kept it."] }] };
const AGENTS = [
  { name: "deleter", adapter: deletes },
  { name: "once", adapter: { ...deletes, restartable: false } },
];

describeClusters("a lost worker", (servers) => {
  const atEnd = atEndOfSuite();
  let cluster: Cluster;
  let gateway: ChildServer;
  let workers: ChildServer[];
  let provider: ProviderServer;
  let models: Awaited<ReturnType<typeof makeDelegatingModels>>;

  beforeTries(async () => {
    provider = await startProviderServer();
    atEnd(() => provider.close());
    models = await makeDelegatingModels(provider.baseUrl);
    atEnd(models.remove);
    const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
    const patient = { ...adapter, next_token_timeout: "1h" };
    const singers = [
      { name: "singer", adapter: { ...patient, model: "singer", restartable: true } },
      { name: "teller", adapter: { ...patient, model: "teller" } },
    ];
    const agents = [...AGENTS, ...singers, ...models.agents];
    cluster = await Cluster.make(servers, { catalog: { agents, mcp_servers: models.mcp_servers }, atEnd });
    [gateway, , ...workers] = await cluster.startAll(["gateway"], ["orchestrator"], ["worker"], ["worker"], ["worker"]);
  });

  const textsOf = (reader: SessionReader) => [...reader.transcript.writing.values()];
  const speaks = (reader: SessionReader, words: string) =>
    reader.until(() => textsOf(reader).some((text) => text.includes(words)));
  const drivenBy = (worker: ChildServer) => worker.metric('interlock_runs{state="driven"}');

  /** Kill every worker. */
  const loseAll = () => Promise.all(workers.map((worker) => worker.kill()));

  /** The workers that run something. */
  async function driving(): Promise<ChildServer[]> {
    const counts = await Promise.all(workers.map(drivenBy));
    return workers.filter((_, index) => counts[index]! > 0);
  }

  /** The listed runs of these sessions. */
  async function runsOf(ids: readonly string[], query = ""): Promise<ListedRun[]> {
    const { runs } = (await gateway.ask("GET", `/runs${query}`)).body;
    return runs.filter(({ sessionId }) => ids.includes(sessionId));
  }

  /** A session whose reply is being streamed, and the stored part of it. */
  async function begin(id: string, agentId: string): Promise<{ reader: SessionReader; runId: string; stored: string }> {
    await create(gateway, id, agentId);
    const reader = await SessionReader.of(gateway, id);
    const runId = await say(gateway, id, "sing");
    await within("beginning", speaks(reader, "la5 "));
    // It is stored at most a quarter of a second later.
    let stored = "";
    while (stored === "")
      stored = (await messagesOf(gateway, id)).find(({ role }) => role === "assistant")?.content ?? "";
    return { reader, runId, stored };
  }

  /** Waits for the end of a song that began again. @returns what the first attempt sang */
  async function sungTwice(reader: SessionReader, id: string): Promise<string> {
    await within("coming to an end", reader.has(id, "complete"));
    const [, first, second, ...more] = await messagesOf(gateway, id);
    expect(more).toEqual([]);
    expect([first!.status, second!.status, second!.content]).toEqual(["interrupted", "success", WHOLE]);
    return first!.content;
  }

  test("runs of a killed worker restart on another worker or fail, and their text is kept", async () => {
    let songs = 0;
    provider.replyBy(({ body }) => sing(JSON.parse(body).model === "singer" && songs++ > 0 ? undefined : FOREVER));
    const [song, tale] = await Promise.all([begin("song", "singer"), begin("tale", "teller")]);
    const dying = await driving();
    expect(dying.length).toBeGreaterThan(0);
    workers = workers.filter((worker) => !dying.includes(worker));
    await Promise.all(dying.map((worker) => worker.kill()));
    // The message in progress when the worker died is closed with its stored text; then the reply starts again.
    const begins = song.reader.until(({ finished }) => finished.size === 2);
    const [againMs, failedMs] = await Promise.all([
      within("beginning again", begins),
      within("giving up", tale.reader.has("tale", "complete")),
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
  });

  test("the output of a lost worker's old attempt reaches no reader when the worker returns", async () => {
    workers.push(await cluster.start(["worker"]));
    const [old, next] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const pauses = [old.promise, next.promise];
    provider.replyBy(() => sing(pauses.shift()));
    const { reader, runId } = await begin("long", "singer");
    const [frozen, ...more] = await driving();
    expect(more).toEqual([]);
    frozen!.freeze();
    const isCutOff = reader.until(({ finished }) => finished.size === 2);
    await within("beginning again", isCutOff);
    await within("speaking again", speaks(reader, "la0 la1 "));
    frozen!.thaw();
    // The old attempt has the rest of the song now, while the next one is in the middle of it.
    old.resolve();
    // The worker is told that the run must not continue.
    await expect.poll(() => drivenBy(frozen!)).toBe(0);
    next.resolve();
    await sungTwice(reader, "long");
    expect(reader.eventsOf("long", "complete").map(({ data }) => data.runId)).toEqual([runId]);
    reader.check();
  });

  test("a worker that was allowed a sub-agent's tool, and was frozen before it knew, does not start it when it wakes", async () => {
    const [asked, mayCall] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    provider.replyBy((request) => {
      const reply = models.answer(request);
      if (reply?.kind !== "stream" || !models.isFirstAct(request)) return reply;
      asked.resolve();
      return { ...reply, pause: mayCall.promise };
    });
    await loseAll();
    const link = await StallingProxy.start(servers.redis().url);
    const worker = await cluster.start(["worker"], { INTERLOCK_BUS: link.url });
    workers = [worker];
    await create(gateway, "boss", "boss");
    const reader = await SessionReader.of(gateway, "boss");
    await say(gateway, "boss");
    await asked.promise;
    // The floor hears of the call, and its answer waits for the worker to wake.
    link.stall("answers");
    mayCall.resolve();
    const calls = () => reader.eventsOf("boss", "tool_call").map(({ data }) => JSON.stringify(data));
    const hears = reader.until(() => calls().some((call) => call.includes("person-1")));
    await within("hearing of the call", hears);
    worker.freeze();
    link.resume();
    workers.push(await cluster.start(["worker"]));
    await within("ending elsewhere", reader.has("boss", "complete"));
    expect(reader.eventsOf("boss", "error").map(({ data }) => data.errorCode)).toEqual(["run_lost"]);
    worker.thaw();
    await expect.poll(() => drivenBy(worker)).toBe(0);
    expect(models.sent()).toEqual([]);
    reader.check();
  });

  test("an approval for a killed worker's call approves no call of another worker, which asks again", async () => {
    /** A session whose agent waits for a confirmation. */
    async function confirm(id: string, agentId: string) {
      await create(gateway, id, agentId);
      const reader = await SessionReader.of(gateway, id);
      await say(gateway, id, "delete");
      const of = (type: string) => reader.eventsOf(id, type);
      const asked = async (times: number) => {
        await reader.has(id, "tool_confirmation_request", times);
        return String(of("tool_confirmation_request").at(-1)!.requestId);
      };
      const answer = (requestId: string, response: string, key: string) =>
        gateway.post("/message", { type: "tool_confirmation_response", sessionId: id, requestId, response }, key);
      const said = async () => (await messagesOf(gateway, id)).filter(({ role }) => role === "assistant");
      const requestId = await asked(1);
      return { reader, of, asked, answer, said, requestId, completed: () => reader.has(id, "complete") };
    }

    const [early, open, single] = await Promise.all([
      confirm("early", "deleter"),
      confirm("open", "deleter"),
      confirm("single", "once"),
    ]);
    const sessions = ["early", "open", "single"];
    const before = await runsOf(sessions);
    expect(before.map(({ state, attempt }) => [state, attempt])).toEqual(sessions.map(() => ["waits_for_person", 1]));
    await loseAll();
    // Nobody knows yet that the workers are gone: the runs are listed as theirs.
    expect(await runsOf(sessions)).toEqual(before);
    // The floor takes the answer; its worker never hears of it.
    expect((await early.answer(early.requestId, "approve", "approval")).status).toBe(200);
    workers = [await cluster.start(["worker"])];
    const again = Promise.all([early.asked(2), open.asked(2), single.completed()]);
    const noticedMs = await within("asking again", again);
    console.info(`another worker asked again after ${noticedMs} ms`);

    const after = await runsOf(sessions);
    const repeated = { state: "waits_for_person", attempt: 2, again: { after: "lost" } };
    expect(after.map(({ sessionId }) => sessionId).toSorted()).toEqual(["early", "open"]);
    expect(after).toMatchObject([repeated, repeated]);
    const former = new Set(before.map(({ worker }) => worker));
    for (const { worker } of after) expect(former.has(worker)).toBe(false);
    expect(await runsOf(sessions, "?state=failed")).toMatchObject([
      { sessionId: "single", failure: { errorCode: "run_lost" } },
    ]);

    // An answer to the former request changes nothing, and a repeat of the first one has its answer.
    expect((await open.answer(open.requestId, "approve", "late")).status).toBe(404);
    expect((await early.answer(early.requestId, "approve", "approval")).status).toBe(200);
    const failed = { content: "", errorCode: "run_lost" };
    expect([await early.said(), await open.said(), await single.said()]).toMatchObject([[], [], [failed]]);
    expect(single.of("error").map(({ data }) => data["errorCode"])).toEqual(["run_lost"]);
    expect(single.of("tool_confirmation_request")).toHaveLength(1);

    const [second] = await again;
    expect((await early.answer(second, "approve", "second")).status).toBe(200);
    expect((await open.answer(await open.asked(2), "reject", "refusal")).status).toBe(200);
    for (const { completed } of [early, open]) await completed();
    expect((await early.said()).map(({ content }) => content)).toEqual(["Deleted."]);
    expect((await open.said()).map(({ content }) => content)).toEqual(["Kept it."]);
    for (const { reader, of } of [early, open, single]) {
      reader.check();
      // Each request was resolved once.
      expect(of("interaction_resolved")).toHaveLength(of("tool_confirmation_request").length);
    }
  });

  test("a run that is cancelled at a gateway ends at its worker", async () => {
    provider.replyBy(() => sing(FOREVER));
    const { reader, runId } = await begin("unwanted", "singer");
    const [worker] = await driving();
    expect(await runsOf(["unwanted"])).toMatchObject([{ id: runId, state: "driven", worker: expect.any(String) }]);
    expect((await gateway.post(`/runs/${runId}/cancel`)).status).toBe(200);
    await reader.has("unwanted", "complete");
    await expect.poll(() => drivenBy(worker!)).toBe(0);
    expect(await runsOf(["unwanted"])).toEqual([]);
    expect((await gateway.post(`/runs/${runId}/cancel`)).status).toBe(404);
    reader.check();
  });
});
