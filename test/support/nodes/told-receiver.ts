import { expect, onTestFinished } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { create, say } from "../clients/node-client.ts";
import { SessionReader } from "../clients/session-reader.ts";
import { within } from "../runner/within.ts";
import { accept, HookReceiver, webhooksFile } from "../servers/hook-receiver.ts";
import type { ChildServer } from "./child-server.ts";

/** The events that the receiver is told of. */
const TOLD: ReadonlySet<string> = new Set(["complete", "session_transition", "arbitration"]);
const TYPES = ["turn.ended", "session.transition", "decision"];
export const SESSIONS = ["s1", "s2", "s3", "s4"];

export const TOLD_CATALOG = {
  agents: [{ name: "singer", adapter: { kind: "scripted", replies: [{ say: ["la ", "la"] }] } }],
};

/** A receiver that is told of sessions by nodes that are killed, and can keep nodes waiting for its answer. */
export class ToldReceiver {
  readonly receiver: HookReceiver;
  /** While it is set, no request is answered. */
  #isSilent = false;
  #isGone = false;
  /** Requests that were answered with 410. */
  refused = 0;
  #held = new Set<string>();
  #onHeld: () => void = () => {};

  private constructor(receiver: HookReceiver) {
    this.receiver = receiver;
  }

  /** It ends with the test. */
  static async start(): Promise<ToldReceiver> {
    const receiver = await HookReceiver.start((response, request) => told.#answer(response, request));
    onTestFinished(() => receiver[Symbol.asyncDispose]());
    const told: ToldReceiver = new ToldReceiver(receiver);
    return told;
  }

  #answer(...[response, request]: Parameters<typeof accept>): void {
    if (this.#isGone) {
      this.refused += 1;
      return void response.writeHead(410).end();
    }
    if (!this.#isSilent) return void accept(response, request);
    this.#held.add(String(JSON.parse(request.body).data.sessionId));
    this.#onHeld();
  }

  /** The file of webhooks that its nodes need. */
  get file(): string {
    return webhooksFile([{ name: "told", url: this.receiver.url, types: TYPES, timeout: "1s" }]);
  }

  /** Make the sessions. */
  async begin(node: ChildServer): Promise<void> {
    for (const id of SESSIONS) await create(node, id, "singer");
  }

  /** A turn in each session at once. */
  async sing(node: ChildServer): Promise<void> {
    await Promise.all(
      SESSIONS.map(async (id) => {
        const reader = await SessionReader.of(node, id);
        const runId = await say(node, id, "go");
        const isOver = () => reader.eventsOf(id, "complete").some(({ data }) => data["runId"] === runId);
        await within("ending a turn", reader.until(isOver));
        reader.close();
      }),
    );
  }

  /** Answer nothing from now on. Resolves when a notice of each session waits for its answer. */
  async hold(work: () => Promise<unknown>): Promise<void> {
    this.#isSilent = true;
    this.#held = new Set();
    const all = new Promise<void>((resolve) => {
      this.#onHeld = () => this.#held.size === SESSIONS.length && resolve();
    });
    await Promise.all([work(), within("being told of each session", all)]);
  }

  /** Answer 410 from now on. */
  leave(): void {
    this.#isGone = true;
  }

  answerAgain(): void {
    this.#isSilent = false;
    this.#isGone = false;
  }

  /** Wait until a node says that the webhook is disabled. */
  async expectDisabled(node: ChildServer): Promise<void> {
    await expect.poll(() => node.metric('interlock_webhook_disabled{webhook="told"}')).toBe(1);
  }

  /**
   * Wait until all that the logs have was told. None is missing, each session's are in its order, and repeats have the
   * id of the first.
   * @returns the number of repeats
   */
  async expectAll(node: ChildServer): Promise<number> {
    const client = createClient({ baseUrl: node.url });
    const logged = async (id: string) => {
      const { events } = await client.readFloorLog(`u:${id}`, { limit: 2_000 });
      return events.flatMap(({ type, seq }) => (TOLD.has(type) ? [seq] : [])).toReversed();
    };
    const told = (id: string) => this.receiver.notices.flatMap(({ data }) => (data.sessionId === id ? [data.seq] : []));
    for (const id of SESSIONS) {
      await expect.poll(async () => told(id).length - (await logged(id)).length, { timeout: 60_000 }).toBe(0);
      expect(told(id), id).toEqual(await logged(id));
    }
    const { requests, notices } = this.receiver;
    return requests.length - notices.length;
  }
}
