import type { FloorSummary } from "../../protocol/floor.ts";
import type { Client } from "../client.ts";
import { Live, type LiveState } from "./live.ts";

export interface FloorsLiveView extends LiveState {
  /** The floors in use, and those that were in use since the stream began; in the order of their ids. */
  floors: readonly FloorSummary[];
}

/** All floors in use that the caller may see. */
export class LiveFloors extends Live<FloorsLiveView> {
  readonly #client: Client;
  #floors = new Map<string, FloorSummary>();

  constructor(client: Client) {
    super({ status: "connecting", floors: [] });
    this.#client = client;
  }

  protected async follow(signal: AbortSignal): Promise<void> {
    const { note: onStatus } = this;
    for await (const { type, data } of this.#client.openFloors({ signal, onStatus })) {
      if (type === "reset") this.#floors = new Map();
      else if (type === "floor") this.#floors.set(data.floorId, data);
      else continue;
      const floors = [...this.#floors.values()];
      this.change({ floors: floors.sort((one, other) => (one.floorId < other.floorId ? -1 : 1)) });
    }
  }
}
