import type { ClientBase } from "pg";
import { isNoTable } from "../sql-state.ts";

const EPOCH = "SELECT epoch FROM interlock.meta";

/**
 * Whether connections lead to the store that a node opened. The server at an address may be replaced, or its data may be
 * restored from a backup; a node that continued there would mix its floors and positions with those of another store.
 */
export class StoreIdentity {
  readonly #epoch: string;
  #isReplaced = false;

  /** @param epoch the epoch of the store that the node opened */
  constructor(epoch: string) {
    this.#epoch = epoch;
  }

  /** Whether the last comparison found another store, or none. */
  get isReplaced(): boolean {
    return this.#isReplaced;
  }

  /**
   * Compare an epoch that the database returned; undefined: the database has no store.
   * @throws Error with a sentence for the operator if it is not that of the opened store
   */
  compare(epoch: string | undefined): void {
    this.#isReplaced = epoch !== this.#epoch;
    if (!this.#isReplaced) return;
    if (epoch !== undefined) throw new Error(`it is another store than this node opened (${epoch}): restart the node`);
    throw new Error("it has no store, but this node opened one: correct its address, or restart the node");
  }

  /**
   * Compare the store that a connection leads to.
   * @throws Error with a sentence for the operator if it is another one
   */
  async verify(client: ClientBase): Promise<void> {
    this.compare(await readEpoch(client));
  }
}

async function readEpoch(client: ClientBase): Promise<string | undefined> {
  try {
    const { rows } = await client.query<{ epoch: string }>(EPOCH);
    return rows[0]?.epoch;
  } catch (error) {
    if (isNoTable(error)) return undefined;
    throw error;
  }
}
