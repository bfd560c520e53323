import fc from "fast-check";
import { expect, test } from "vitest";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { FloorWriter, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

/**
 * A step of a history: events of one of four sessions or of the floor, the end of a session (another one replaces it),
 * a restart.
 */
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("events" as const),
      of: fc.integer({ min: -1, max: 3 }),
      count: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 40 })),
      areDecisions: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("delete" as const), of: fc.integer({ min: 0, max: 3 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("prune" as const),
      of: fc.integer({ min: 0, max: 3 }),
      percent: fc.integer({ min: 0, max: 100 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen" as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never;

let histories = 0;

/** Plays a history, and records in a list what the store must return. */
class History {
  readonly #stage: StoreStage;
  readonly #ids = [0, 1, 2, 3].map((index) => `h${histories}s${index}`);
  readonly #archived = new Set<string>();
  readonly #floor: FloorWriter;
  #log: LogEntry[] = [];

  constructor(stage: StoreStage) {
    this.#stage = stage;
    this.#floor = new FloorWriter(stage.store, `u:h${histories++}`);
  }

  async begin(): Promise<void> {
    await this.#floor.write({ sessions: this.#ids.map((id) => this.#floor.session(id)) });
  }

  async play(step: Step): Promise<void> {
    const session = "of" in step && step.of >= 0 ? this.#ids[step.of]! : undefined;
    if (session !== undefined && this.#archived.has(session)) return;
    if (step.do === "events") await this.#add(session, step.count, step.areDecisions);
    else if (step.do === "delete") await this.#delete(session!);
    else if (step.do === "prune") await this.#prune(session!, step.percent);
    else if (this.#stage.isLasting) this.#floor.continueIn(await this.#stage.reopen());
  }

  async #add(session: string | undefined, count: number, areDecisions: boolean): Promise<void> {
    const of = session === undefined ? {} : { session };
    const type = areDecisions ? "arbitration" : "data";
    const events = Array.from({ length: count }, (_, index) => this.#floor.event(type, { say: `${index}` }, of));
    const sessions = session === undefined ? [] : [this.#floor.session(session)];
    await this.#floor.write({ sessions, events });
    this.#log.push(...events);
  }

  async #delete(session: string): Promise<void> {
    const last = await this.#floor.delete(session);
    this.#log = [...this.#log.filter(({ sessionId }) => sessionId !== session), last];
    const next = `${session}+`;
    this.#ids[this.#ids.indexOf(session)] = next;
    await this.#floor.write({ sessions: [this.#floor.session(next)] });
  }

  async #prune(session: string, percent: number): Promise<void> {
    await this.#floor.write({ sessions: [this.#floor.session(session, { state: "archived" })] });
    this.#archived.add(session);
    const eventsBefore = NOON + Math.floor((this.#floor.head * percent) / 100);
    const limits = { now: NOON, receiptsBefore: 0, eventsBefore, limit: 7 };
    while (await this.#stage.store.prune(limits)) {}
    const isPruned = ({ sessionId, at }: LogEntry) =>
      sessionId !== undefined && this.#archived.has(sessionId) && at < eventsBefore;
    this.#log = this.#log.filter((entry) => !isPruned(entry));
  }

  /** Compare every log with the list, from random places. */
  async compare(from: number, limit: number): Promise<void> {
    const { store } = this.#stage;
    for (const id of this.#ids) {
      const entries = this.#log.filter(({ sessionId, seq }) => sessionId === id && seq! > from);
      expect((await store.readSessionLog(id as SessionId, from, limit))?.entries).toEqual(entries.slice(0, limit));
    }
    const after = this.#log.filter(({ floorSeq }) => floorSeq > from);
    expect((await store.readFloorLog(this.#floor.id, from, limit)).entries).toEqual(after.slice(0, limit));
    const decisions = this.#log.filter(({ type }) => type === "arbitration").map(({ json }) => JSON.parse(json));
    const view = await store.viewFloor(this.#floor.id, { sessions: 1, decisions: limit });
    expect(view.decisions).toEqual(decisions.slice(-limit));
  }
}

export function historiesContract(stage: StoreStage): void {
  test("logs and decisions of any history, read from any place, are those of a plain list of its events", async () => {
    const place = fc.tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 1, max: 60 }));
    const property = fc.asyncProperty(
      fc.array(step, { maxLength: 20 }),
      fc.array(place, { maxLength: 4 }),
      async (steps, places) => {
        const history = new History(stage);
        await history.begin();
        for (const each of steps) {
          await history.play(each);
          await history.compare(0, 1_000);
        }
        for (const [from, limit] of places) await history.compare(from, limit);
      },
    );
    await fc.assert(property, { numRuns: 30, seed: 11 });
  });
}
