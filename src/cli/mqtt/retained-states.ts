import type { Outbox } from "./outbox.ts";

/**
 * The retained topics of the bridge: what each should have, and what the broker has. Only differences are published,
 * and topics that should not exist are cleared.
 */
export class RetainedStates {
  readonly #outbox: Outbox;
  /** What a topic should have, by the group that it belongs to: the topics of one floor, for example. */
  readonly #wanted = new Map<string, { topics: ReadonlyMap<string, string>; owns: (topic: string) => boolean }>();
  /** What the broker has, or will have when the outbox is empty. */
  readonly #there = new Map<string, string>();

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** The topics of a group are these, and no others. `owns`: whether a topic is one of the group. */
  set(group: string, topics: ReadonlyMap<string, string>, owns: (topic: string) => boolean): void {
    this.#wanted.set(group, { topics, owns });
    this.#compare(topics, owns);
  }

  /**
   * A topic as the broker kept it, from an earlier bridge or from before the broker was away. What was published since
   * then is newer.
   */
  learn(topic: string, payload: string): void {
    if (!this.#there.has(topic)) this.#there.set(topic, payload);
  }

  /** The broker may have lost what it had. */
  forget(): void {
    this.#there.clear();
  }

  /** Compare again what was learned with what should be. */
  compare(): void {
    for (const { topics, owns } of this.#wanted.values()) this.#compare(topics, owns);
  }

  /** The topics that the broker has. */
  get topics(): readonly string[] {
    return [...this.#there.keys()];
  }

  /** A topic that nothing should have. */
  clear(topic: string): void {
    this.#publish(topic, "");
  }

  #compare(topics: ReadonlyMap<string, string>, owns: (topic: string) => boolean): void {
    for (const [topic, payload] of topics) this.#publish(topic, payload);
    for (const topic of [...this.#there.keys()]) if (owns(topic) && !topics.has(topic)) this.#publish(topic, "");
  }

  #publish(topic: string, payload: string): void {
    if ((this.#there.get(topic) ?? "") === payload) return;
    if (payload === "") this.#there.delete(topic);
    else this.#there.set(topic, payload);
    this.#outbox.put(topic, { topic, payload, isRetained: true });
  }
}
