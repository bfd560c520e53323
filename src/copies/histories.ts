import { BOUNDS } from "../config/bounds.ts";
import type { Caller } from "../gateway/access/caller.ts";
import type { IdempotentCommands, Identity, Write } from "../gateway/idempotent-commands.ts";
import { AppError } from "../protocol/errors.ts";
import type { ConnectionId, SessionId } from "../protocol/ids.ts";
import type { Accepted } from "../protocol/internal/reply.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { StagedCopies, StoreSecret } from "../store/store.ts";
import { StagedHistory } from "./staged-history.ts";

export interface HistoriesOptions {
  store: StagedCopies & StoreSecret;
  clock: Clock;
  newId: () => string;
  commands: IdempotentCommands;
}

/** Creates sessions that begin with a history, and limits how many histories the node processes at once. */
export class Histories {
  readonly #options: HistoriesOptions;
  readonly #underWay = new Map<string, Promise<Accepted>>();
  readonly #byCaller = new Map<string, number>();
  #count = 0;

  constructor(options: HistoriesOptions) {
    this.#options = options;
  }

  /**
   * Create a session by a command that `plan` makes after it has written the session's history. A concurrent repeat
   * gets the answer of the first request. All repeats use the same session id.
   * @param connectionId to bind the session to; null: to none
   * @throws AppError `busy`, or the error that refuses the write
   */
  async create(
    identity: Identity,
    connectionId: ConnectionId | undefined | null,
    plan: (history: StagedHistory) => Promise<Write>,
  ): Promise<Accepted> {
    const { caller, commandId, bodyHash } = identity;
    const key = JSON.stringify([caller.id, commandId, bodyHash]);
    const underWay = this.#underWay.get(key);
    if (underWay) return await underWay;
    const made = this.#during(caller, () => this.#create(identity, connectionId, plan));
    this.#underWay.set(key, made);
    try {
      return await made;
    } finally {
      this.#underWay.delete(key);
    }
  }

  /**
   * The same for a history in the request's body. The body is read first, because a repeat must have the same body.
   * @param read writes the history, and returns the hash of the body
   */
  async createFrom(
    identity: Identity,
    connectionId: ConnectionId | undefined,
    read: (history: StagedHistory) => Promise<string>,
    plan: (history: StagedHistory) => Promise<Write>,
  ): Promise<Accepted> {
    return await this.#during(identity.caller, () => this.#create(identity, connectionId, plan, read));
  }

  async #during<T>(caller: Caller, work: () => Promise<T>): Promise<T> {
    const leave = this.enter(caller);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Reserve one of the concurrent histories. @returns a function that frees it @throws AppError `busy` */
  enter({ id }: Caller): () => void {
    const ofCaller = this.#byCaller.get(id) ?? 0;
    if (this.#count >= BOUNDS.histories || ofCaller >= BOUNDS.callerHistories) {
      throw new AppError("busy", "Too many histories are being copied; repeat with the same key.");
    }
    this.#count += 1;
    this.#byCaller.set(id, ofCaller + 1);
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.#count -= 1;
      const left = this.#byCaller.get(id)! - 1;
      if (left > 0) this.#byCaller.set(id, left);
      else this.#byCaller.delete(id);
    };
  }

  async #create(
    identity: Identity,
    connectionId: ConnectionId | undefined | null,
    plan: (history: StagedHistory) => Promise<Write>,
    read?: (history: StagedHistory) => Promise<string>,
  ): Promise<Accepted> {
    const { commands } = this.#options;
    const sessionId = commands.deriveId<SessionId>(identity, "session");
    const history = new StagedHistory({ ...this.#options, sessionId });
    try {
      const bodyHash = read ? `${identity.bodyHash} ${await read(history)}` : identity.bodyHash;
      const own = { ...identity, bodyHash };
      const choice = connectionId === null ? undefined : { connectionId };
      return await commands.carryOut(own, () => plan(history), choice);
    } finally {
      await history.discard();
    }
  }
}
