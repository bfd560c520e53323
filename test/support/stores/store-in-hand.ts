import { AppError } from "../../../src/protocol/errors.ts";
import type { CommitOutcome, FloorChange, Store } from "../../../src/store/store.ts";
import { turn } from "../runner/virtual-clock.ts";
import { withMethods } from "./temporary-store.ts";

/** What becomes of a commit: as asked, not done, or done while its answer is lost. */
type CommitFate = "commit" | { refuseWith: unknown } | { loseAnswerWith: unknown } | "conflict";

/** A real store whose commits wait until they are let through, and fail as they are told to. */
export class StoreInHand {
  /** To be given to a host. */
  readonly store: Store;
  /** Every change that was asked for, in order. */
  readonly changes: FloorChange[] = [];
  /** What becomes of the next commits, one each; those beyond them are carried out. */
  readonly fates: CommitFate[] = [];
  /** How often each method was called. */
  readonly calls = new Map<string, number>();
  /** Methods that cannot reach the database … */
  readonly away = new Set<string>();
  /** … methods that find nothing … */
  readonly missing = new Set<string>();
  /** … and methods that wait for something before they look. */
  readonly waiting = new Map<string, Promise<unknown>>();
  #gate: PromiseWithResolvers<void> | undefined;
  #underWay = 0;

  constructor(store: Store) {
    const commit = (change: FloorChange) => this.#commit(store, change);
    const counted = [
      "loadFloor",
      "loadSession",
      "loadSessions",
      "findReceipts",
      "confirm",
      "findMessage",
      "listMessages",
      "dueEffects",
      "shiftEffects",
    ] as const;
    const methods: Partial<Store> = { commit };
    for (const name of counted) {
      const own = store[name].bind(store) as (...given: unknown[]) => unknown;
      // Called at once where nothing is in its way: the order of calls counts.
      const call = (...given: unknown[]) => {
        this.calls.set(name, this.callsOf(name) + 1);
        const wait = name === "shiftEffects" ? this.#gate?.promise : this.waiting.get(name);
        return wait ? wait.then(() => this.#call(name, own, given)) : this.#call(name, own, given);
      };
      Object.assign(methods, { [name]: call });
    }
    this.store = withMethods(store, methods);
  }

  callsOf(method: string): number {
    return this.calls.get(method) ?? 0;
  }

  /** From now on commits wait. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  /** Those that wait are carried out, and those that follow. */
  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  /** Resolves when so many commits were asked for. */
  async asked(count: number): Promise<void> {
    while (this.changes.length < count) await turn();
  }

  /** Resolves when nothing goes on any more but what is held. */
  async idle(): Promise<void> {
    for (let quiet = 0; quiet < 5; quiet = this.#underWay === 0 ? quiet + 1 : 0) await turn();
  }

  async #call(name: string, own: (...given: unknown[]) => unknown, given: unknown[]): Promise<unknown> {
    if (this.away.has(name)) throw new AppError("unavailable");
    if (this.missing.has(name)) return undefined;
    this.#underWay += 1;
    try {
      return await own(...given);
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
