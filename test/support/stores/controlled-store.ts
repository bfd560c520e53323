import { AppError } from "../../../src/protocol/errors.ts";
import type { CommitOutcome, FloorChange, Store } from "../../../src/store/store.ts";
import { turn } from "../runner/virtual-clock.ts";

/** The result of a commit: done, not done, or done with a lost answer. */
type CommitFate = "commit" | { refuseWith: unknown } | { loseAnswerWith: unknown } | "conflict";

type Method = (...given: unknown[]) => unknown;

/** A store whose commits the test can hold and let fail. */
export class ControlledStore {
  /** The store for a host. */
  readonly store: Store;
  /** Every requested change, in order. */
  readonly changes: FloorChange[] = [];
  /** The results of the next commits, one each; later ones succeed. */
  readonly fates: CommitFate[] = [];
  /** How often each method was called. */
  readonly calls = new Map<string, number>();
  /** Methods that cannot reach the database. */
  readonly away = new Set<string>();
  /** Methods that find nothing. */
  readonly missing = new Set<string>();
  /** Promises for which methods wait before they read. */
  readonly waiting = new Map<string, Promise<unknown>>();
  #gate: PromiseWithResolvers<void> | undefined;
  #underWay = 0;

  constructor(store: Store) {
    this.store = new Proxy(store, {
      get: (target, name: keyof Store) => {
        if (name === "commit") return (change: FloorChange) => this.#commit(target, change);
        const own = target[name] as string | Method;
        return typeof own === "string" ? own : (...given: unknown[]) => this.#ask(name, () => own.apply(target, given));
      },
    });
  }

  callsOf(method: string): number {
    return this.calls.get(method) ?? 0;
  }

  /** From now on commits wait. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  /** Let the waiting commits and all later ones continue. */
  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  /** Resolves when `count` commits were requested. */
  async asked(count: number): Promise<void> {
    while (this.changes.length < count) await turn();
  }

  /** Resolves when only held commits are pending. */
  async idle(): Promise<void> {
    for (let quiet = 0; quiet < 5; quiet = this.#underWay === 0 ? quiet + 1 : 0) await turn();
  }

  /** Called at once if nothing delays it, because the order of calls matters. */
  #ask(name: string, call: () => unknown): Promise<unknown> {
    this.calls.set(name, this.callsOf(name) + 1);
    const wait = this.waiting.get(name);
    return wait ? wait.then(() => this.#call(name, call)) : this.#call(name, call);
  }

  async #call(name: string, call: () => unknown): Promise<unknown> {
    if (this.away.has(name)) throw new AppError("unavailable");
    if (this.missing.has(name)) return undefined;
    this.#underWay += 1;
    try {
      return await call();
    } finally {
      this.#underWay -= 1;
    }
  }

  async #commit(store: Store, change: FloorChange): Promise<CommitOutcome> {
    this.changes.push(change);
    const fate = this.fates.shift() ?? "commit";
    await this.#gate?.promise;
    if (fate === "conflict") return fate;
    if (fate !== "commit" && "refuseWith" in fate) throw fate.refuseWith;
    this.#underWay += 1;
    const outcome = await store.commit(change).finally(() => {
      this.#underWay -= 1;
    });
    if (fate !== "commit") throw fate.loseAnswerWith;
    return outcome;
  }
}
