import { expect, test } from "vitest";
import { create, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Transcript } from "../../support/clients/transcript.ts";
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

/** A song that a call interrupts, and that continues to its end afterwards. */
async function singThroughACall(server: ChildServer, round: number, connectionId: string): Promise<string> {
  const runId = await say(server, "singer", "sing");
  const call = `call-${round}`;
  await create(server, call, "phone", { userId: "ann", connectionId });
  await say(server, call, "hello");
  await server.post(`/session/${call}/archive`);
  return runId;
}

test("readers that are cut off continuously have every event once, in order, and every text right", async () => {
  const chance = new Chance(3);
  const server = await (await makeInstallation(CATALOG)).start();
  const faults: string[] = [];
  const open = async (path: string, transcript = new Transcript()) => {
    mindText(transcript, faults);
    return await SessionReader.at(server, path, transcript);
  };
  const calm = await open("/events");
  const { connectionId } = (await calm.stream.next("connected")).data;
  await create(server, "singer", "singer", { userId: "ann", connectionId });
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
    const runId = await singThroughACall(server, round, connectionId);
    await calm.until(() => calm.eventsOf("singer", "complete").some(({ data }) => data.runId === runId));
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
});
