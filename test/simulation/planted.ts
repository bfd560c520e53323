import type { SessionContext } from "../../src/actors/session-context.ts";
import type { Bus, Listener, Unsubscribe } from "../../src/bus/bus.ts";
import type { Command } from "../../src/protocol/command.ts";
import type { CommandId } from "../../src/protocol/ids.ts";
import type { FloorChange } from "../../src/store/store.ts";
import { MemoryStore } from "./memory-store.ts";
import { type Seams, SOUND } from "./seams.ts";

/** Faults as somebody might make them, each in one seam. A simulation that does not find them is worth nothing. */
export const PLANTED: Record<string, Partial<Seams>> = {
  "commits without comparing versions": { openStore: () => new CarelessStore() },

  "answers what changes nothing from memory": {
    hostStore: (store) => ({ ...store, confirm: async () => true }),
  },

  "takes reports of attempts that were replaced": {
    serve: (serve, memory) => (envelope) => serve({ ...envelope, command: asCurrent(envelope.command, memory) }),
  },

  "takes a repeat for a new command": {
    gatewayAsk: (ask, newId) => (envelope) =>
      ask(envelope.caller === undefined ? envelope : { ...envelope, commandId: newId() as CommandId }),
  },

  "keeps no receipts": {
    hostStore: (store) => ({
      ...store,
      commit: (change) => store.commit({ ...change, receipts: [] }),
      findReceipts: async () => [],
    }),
  },

  "uses ids of effects again": {
    hostIds: () => {
      let count = 0;
      return () => `again${count++ % 4}`;
    },
  },

  "lets readers go live before the bus has acknowledged": { gatewayBus: (bus) => new HastyBus(bus) },
};

export const seamsOf = (planted: Partial<Seams>): Seams => ({ ...SOUND, ...planted });

class CarelessStore extends MemoryStore {
  override commit(change: FloorChange): Promise<"committed" | "conflict"> {
    return super.commit({ ...change, expected: this.versionOf(change.floorId) });
  }
}

/** A report of any attempt of a run that goes on counts as the one that is expected. */
function asCurrent(command: Command, memory: MemoryStore): Command {
  if (command.type !== "run.report" && command.type !== "run.still") return command;
  const row = memory.rowOf(command.sessionId);
  const run = row && (JSON.parse(row.memory) as Pick<SessionContext, "run">).run;
  if (!run?.live || run.id !== command.runId || run.attempt === command.attempt) return command;
  const { attempt } = run;
  return command.type === "run.still" ? { ...command, attempt } : { ...command, attempt, n: run.reported + 1 };
}

/** It says that it subscribed when it has only asked to. */
class HastyBus implements Bus {
  readonly #bus: Bus;

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  async subscribe(topic: string, listener: Listener): Promise<Unsubscribe> {
    const subscribed = this.#bus.subscribe(topic, listener).catch(() => () => {});
    return () => void subscribed.then((unsubscribe) => unsubscribe());
  }

  publish(topic: string, message: Uint8Array): Promise<void> {
    return this.#bus.publish(topic, message);
  }

  isHeard(topic: string): boolean {
    return this.#bus.isHeard(topic);
  }

  isAway(topic?: string): boolean {
    return this.#bus.isAway(topic);
  }

  onAway(listener: () => void): Unsubscribe {
    return this.#bus.onAway(listener);
  }

  onRecovered(listener: () => void): Unsubscribe {
    return this.#bus.onRecovered(listener);
  }

  close(): Promise<void> {
    return this.#bus.close();
  }
}
