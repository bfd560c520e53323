import { EventSource } from "eventsource";
import { expect, onTestFinished, test } from "vitest";
import type { ReceivedEvent } from "../../support/clients/event-stream.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Transcript } from "../../support/clients/transcript.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { Chance } from "../../support/runner/chance.ts";

const SONG = Array.from({ length: 40 }, (_, n) => `la${n} `);
const WHOLE = SONG.join("");
const CATALOG = {
  agents: [
    { name: "singer", priority: 20, adapter: { kind: "scripted", replies: [{ say: SONG, delay: "5ms" }] } },
    { name: "phone", priority: 90 },
  ],
};

/** Each message is the song, at every moment and for every reader. */
function mindText(transcript: Transcript, faults: string[]): void {
  transcript.onText = (_, text) => {
    const isQuestion = text === "sing" || text === "hello";
    if (!isQuestion && !WHOLE.startsWith(text) && !text.startsWith("You said: ")) faults.push(text);
  };
}

async function create(server: ChildServer, id: string, agentId: string, connectionId?: string): Promise<void> {
  const body = { id, agentId, userId: "ann", activate: true, ...(connectionId && { connectionId }) };
  expect((await server.post("/session/create", body)).status, id).toBe(200);
}

/** A song that a call interrupts, and that continues to its end afterwards. */
async function singThroughACall(server: ChildServer, round: number, connectionId: string): Promise<string> {
  const { body } = await server.post("/message", { type: "chat", sessionId: "singer", content: "sing" });
  const call = `call-${round}`;
  await create(server, call, "phone", connectionId);
  await server.post("/message", { type: "chat", sessionId: call, content: "hello" });
  await server.post(`/session/${call}/archive`);
  return body.runId;
}

const hasEnded = (runId: string) => (transcript: Transcript) =>
  (transcript.logs.get("singer") ?? []).some(({ type, data }) => type === "complete" && data.runId === runId);

test("readers that are cut off continuously have every event once, in order, and every text right", async () => {
  const chance = new Chance(3);
  const server = await (await makeInstallation(CATALOG)).start();
  const faults: string[] = [];
  const open = async (path: string, transcript = new Transcript()) => {
    const reader = new SessionReader(`${server.url}${path}`, transcript);
    mindText(reader.transcript, faults);
    onTestFinished(() => reader.close());
    return await reader.open();
  };
  const calm = await open("/events");
  const { connectionId } = (await calm.stream.next("connected")).data;
  await create(server, "singer", "singer", connectionId);
  await calm.stream.until(({ position }) => position !== undefined);
  await calm.until((transcript) => transcript.stateOf("singer") === "active.idle");
  const hasty = [
    await open(`/events?lastEventId=${calm.position}`, new Transcript({ singer: calm.transcript.seqOf("singer") })),
    await open("/session/singer/events"),
    await open("/session/singer/events"),
    await open("/floor/u%3Aann/events"),
  ];
  // The client shows only a part of the events.
  hasty[3]!.transcript.maySkip = true;

  let isOver = false;
  const over = Promise.withResolvers<void>();
  const hasten = async (reader: SessionReader) => {
    while (!isOver) {
      const heard = reader.stream.events.length + 1 + chance.below(6);
      await Promise.race([reader.until(() => reader.stream.events.length >= heard), over.promise]);
      reader.byQuery = chance.percent(50);
      await reader.open();
    }
  };
  const hastening = hasty.map(hasten);
  for (let round = 0; round < 8; round++) {
    await calm.until(hasEnded(await singThroughACall(server, round, connectionId)));
  }
  isOver = true;
  over.resolve();
  await Promise.all(hastening);
  expect(faults).toEqual([]);
  for (const [id, events] of calm.transcript.logs) {
    const head = events.at(-1)!.seq!;
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: head }, (_, n) => n + 1));
    for (const reader of hasty.slice(0, id === "singer" ? 3 : 1)) {
      await reader.until((transcript) => transcript.seqOf(id) === head);
    }
  }
  for (const reader of hasty) reader.check();
}, 60_000);

test("a browser's own EventSource reconnects by itself, and misses and repeats nothing", async () => {
  const server = await (await makeInstallation(CATALOG)).start();
  const proxy = await CuttingProxy.start(server.url);
  const faults: string[] = [];

  /** Receives events like a page: with `onmessage` only. */
  function listen(path: string): {
    transcript: Transcript;
    heard: ReceivedEvent[];
    until: (holds: () => boolean) => Promise<void>;
  } {
    const transcript = new Transcript();
    mindText(transcript, faults);
    const source = new EventSource(`${proxy.url}${path}`);
    onTestFinished(() => source.close());
    const heard: ReceivedEvent[] = [];
    let changed = Promise.withResolvers<void>();
    source.onopen = () => transcript.reconnect();
    source.onmessage = ({ data }) => {
      const event = JSON.parse(data) as ReceivedEvent;
      heard.push(event);
      try {
        transcript.take(event);
      } catch (error) {
        faults.push((error as Error).message);
      }
      changed.resolve();
      changed = Promise.withResolvers();
    };
    const until = async (holds: () => boolean) => {
      while (!holds()) await changed.promise;
    };
    return { transcript, heard, until };
  }

  const connection = listen("/events");
  await connection.until(() => connection.heard.length >= 2);
  const { connectionId } = connection.heard[0]!.data;
  await create(server, "singer", "singer", connectionId);
  const session = listen("/session/singer/events");
  await connection.until(() => connection.transcript.seqOf("singer") > 0);
  await session.until(() => session.transcript.seqOf("singer") > 0);
  for (let round = 0; round < 2; round++) {
    const before = proxy.connections;
    const runId = await singThroughACall(server, round, connectionId);
    proxy.cut();
    for (const reader of [connection, session]) await reader.until(() => hasEnded(runId)(reader.transcript));
    expect(proxy.connections - before).toBeGreaterThanOrEqual(2);
  }
  const ids = connection.heard.filter(({ type }) => type === "connected").map(({ data }) => data.connectionId);
  expect(new Set(ids)).toEqual(new Set([connectionId]));
  expect(faults).toEqual([]);
  const { body } = await server.ask("GET", "/session/singer");
  for (const { transcript } of [connection, session]) {
    expect(transcript.seqOf("singer")).toBe(Number(body.position.split(".")[1]));
    expect([...transcript.finished.values()].filter((text) => text === WHOLE)).toHaveLength(2);
  }
}, 60_000);
