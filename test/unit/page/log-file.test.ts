import { expect, test } from "vitest";
import { logSchema } from "../../../page/build/log-schema.ts";
import { itemsOf, transcriptOf } from "../../../page/log/conversation-log.ts";
import { lineOf } from "../../../page/log/event-line.ts";
import { PictureBook } from "../../../page/log/floor-picture.ts";
import { densityIndex, heightsOf } from "../../../page/log/log-density.ts";
import type { LogEvent } from "../../../page/log/log-event.ts";
import { readLogFile, writeLogFile } from "../../../page/log/log-file.ts";
import { eventIndices } from "../../../page/log/log-index.ts";
import { whenOf } from "../../../page/moment/time-text.ts";
import { exchangeIndex } from "../../../page/sequence/exchanges.ts";
import { flightIndex } from "../../../page/timeline/flights.ts";
import { foldedAxis, gapIndex } from "../../../page/timeline/folding.ts";
import { kindIndex } from "../../../page/timeline/kinds.ts";
import { en } from "../../../page/words/en.ts";
import { PageError } from "../../../page/words/failure-text.ts";
import { fill } from "../../../page/words/sentence.ts";
import { LOGGED_EVENTS, type LoggedType } from "../../../src/protocol/event.ts";
import type { OpenApiDocument } from "../../support/documents/openapi-document.ts";
import { type Schema, samplesOf } from "../../support/documents/openapi-samples.ts";

const schema = logSchema();
const document = { components: { schemas: schema.$defs } } as unknown as OpenApiDocument;

/** Values that are no plain names. */
const PATTERNED: Readonly<Record<string, object>> = {
  session_created: { floorId: "u:ann" },
  session_transition: { movedTo: "u:ann" },
  message: { images: [{ hash: "a".repeat(64), mimeType: "image/png", bytes: 1 }] },
};

/** An event of every type with every field, and the transitions of the session that they are about. */
function wholeLog(): LogEvent[] {
  const samples = Object.entries(schema.data).map(([type, of]) => {
    const [data] = samplesOf(of as Schema, document, () => "s1") as [Record<string, unknown>];
    return { type, data: { ...data, ...PATTERNED[type] } };
  });
  const moves = [
    { from: "created", to: "active.running", event: "turn" },
    { from: "active.running", to: "paused", event: "preempt" },
  ].map((data) => ({ type: "session_transition", data }));
  return [...samples, ...moves].map((event, index) => ({
    ...event,
    sessionId: "s1",
    seq: index + 1,
    requestId: "r1",
    position: `abc.${index + 1}`,
    timestamp: new Date(Date.UTC(2026, 10, 22, 8, 0, index)).toISOString(),
  })) as unknown as LogEvent[];
}

type Path = readonly (string | number)[];

/** Where the fields of a value are, also within one another. */
function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, each]) =>
    pathsIn(each, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return path.length === 0 ? inner : [path, ...inner];
}

const GONE = Symbol("gone");
const WRONG = [GONE, null, true, "", "x".repeat(2_000), "__proto__", -1, 0.5, 9e15, 1e308, {}, { a: null }, [], [null]];

/** The value with another one at a path. */
function changed(value: unknown, [key, ...rest]: Path, to: unknown): unknown {
  if (key === undefined) return to;
  const copy = structuredClone(value) as Record<string | number, unknown>;
  const next = changed(copy[key], rest, to);
  if (next !== GONE) copy[key] = next;
  else if (Array.isArray(copy)) copy.splice(Number(key), 1);
  else delete copy[key];
  return copy;
}

/** Everything that the views compute of a log. */
function show(events: readonly LogEvent[]): void {
  const telling = { say: (key: keyof typeof en, values = {}) => fill(en[key], values), agentName: (id: string) => id };
  const book = new PictureBook(events);
  for (let count = 0; count <= events.length; count += 1) {
    const { holder, ducked, paused, queued } = book.at(count);
    for (const each of [holder, ...ducked, ...paused, ...queued]) {
      if (each) [each.createdAt, each.queuedAt ?? 0, each.leaseUntil ?? 0].map((at) => whenOf(at, "en", true));
    }
  }
  for (const event of events) lineOf(event, telling);
  const { messages, toolUses } = transcriptOf(events, eventIndices().of(events).get("s1"));
  itemsOf({ messages, toolUses });
  for (const { createdAt } of messages) new Date(createdAt).toISOString();
  heightsOf(densityIndex().of(events));
  foldedAxis(gapIndex().of(events));
  for (const index of [exchangeIndex(), flightIndex(), kindIndex()]) index.of(events);
}

const isServers = ({ type, data }: { type: string; data: unknown }): boolean =>
  LOGGED_EVENTS[type as LoggedType].safeParse(data).success;

const refusal = (read: () => unknown): PageError | undefined => {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof PageError) return error;
    throw error;
  }
};

test("a saved log is read back unchanged", () => {
  const log = { floorId: "u:ann", events: wholeLog() };
  expect(readLogFile(writeLogFile(log), schema)).toEqual(log);
  show(log.events);
});

test("a saved log with any damaged field is refused with its line and the field, or every view can show it", () => {
  const all = wholeLog();
  let [refused, shown] = [0, 0];
  for (const [nth, event] of all.entries()) {
    // The session, the event, and the transitions.
    const events = all.filter((_, at) => at === 0 || at === nth || at >= all.length - 2);
    const index = events.indexOf(event);
    for (const path of pathsIn(event)) {
      for (const wrong of WRONG) {
        const damaged = changed(event, path, wrong) as LogEvent;
        const log = events.with(index, damaged);
        const error = refusal(() => readLogFile(writeLogFile({ floorId: "u:ann", events: log }), schema));
        const what = `${event.type} ${path.join(".")} = ${String(wrong).slice(0, 20)}`;
        if (error) {
          refused += 1;
          expect(error, what).toMatchObject({ key: "log.badline", values: { number: index + 1, line: index + 2 } });
          const { path: named } = error.values;
          expect(`${named}`.startsWith(`${path[0]}`) || path[0] === "type" || path[0] === "position", what).toBe(true);
        } else {
          shown += 1;
          expect(() => show(log), what).not.toThrow();
        }
        if (path[0] === "data" && !isServers(damaged)) expect(error, what).toBeDefined();
      }
    }
  }
  expect(refused).toBeGreaterThan(shown);
});

test("a saved log that is cut off anywhere is refused, with the line", () => {
  const text = writeLogFile({ floorId: "u:ann", events: wholeLog().slice(0, 3) });
  for (let length = 60; length < text.length - 2; length += 1) {
    const line = text.slice(0, length).trimEnd().split("\n").length;
    expect(() => readLogFile(text.slice(0, length), schema)).toThrow(
      expect.objectContaining({ key: "log.cutline", values: { line } }),
    );
  }
});

const HEAD = '{"format":"interlock-floor-log","version":1,"floorId":"u:a"';

test.each([
  ["null", "log.notalog"],
  ['{"format":"interlock-floor-log","version":2}', "log.version"],
  [`${HEAD}}`, "log.noevents"],
  [`${HEAD.replace("u:a", "x:a")},"events":[]}`, "log.noevents"],
  [`${HEAD},"events":[{"type":"x"}]}`, "log.badline"],
  [`${HEAD},\n"events":\n[\n{"type":"x"},\nnull]}`, "log.badevent"],
  [`${HEAD},"events":[\nnull,\n{\n]}`, "log.cutline"],
  ["{", "log.notjson"],
])("a malformed saved log is refused with a reason: %s", (text, key) => {
  expect(() => readLogFile(text, schema)).toThrow(expect.objectContaining({ name: "PageError", key }));
});
