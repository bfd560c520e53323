import type { ServerResponse } from "node:http";
import type { SessionContext } from "../../src/actors/session/session-context.ts";
import type { Bus } from "../../src/bus/bus.ts";
import type { AgentEntry, Catalog } from "../../src/config/catalog/catalog.ts";
import type { LogEntry } from "../../src/protocol/event.ts";
import type { CommandId } from "../../src/protocol/ids.ts";
import type { Command } from "../../src/protocol/internal/command.ts";
import { connectionPosition, parseConnectionPosition } from "../../src/protocol/position.ts";
import type { CommitOutcome, FloorChange, LogSlice } from "../../src/store/store.ts";
import { DatabaseTime } from "../../src/system/database-time.ts";
import { MemoryStore } from "../support/stores/memory-store.ts";
import { withMethods } from "../support/stores/temporary-store.ts";
import type { Staging } from "./world.ts";

interface Planted extends Staging {
  /** A history that finds it, as long as the same seed plays the same history. Default: 1. */
  foundBy?: number;
}

/**
 * Typical programming errors, each in one seam, with the theme whose histories find them soonest. They prove that the
 * simulation finds faults.
 */
export const PLANTED: Record<string, Planted> = {
  "commits without comparing versions": {
    theme: "busy",
    foundBy: 7,
    seams: { openStore: () => new CarelessStore() },
  },

  "answers what changes nothing from memory": {
    theme: "parted",
    foundBy: 12,
    seams: { hostStore: (store) => withMethods(store, { confirm: async () => true }) },
  },

  "takes reports of attempts that were replaced": {
    theme: "working",
    foundBy: 14,
    seams: {
      serve: (serve, memory) => (envelope) => serve({ ...envelope, command: asCurrent(envelope.command, memory) }),
    },
  },

  "takes a repeat for a new command": {
    theme: "busy",
    seams: {
      gatewayAsk: (ask, newId) => (envelope) =>
        ask(envelope.caller === undefined ? envelope : { ...envelope, commandId: newId() as CommandId }),
    },
  },

  "keeps no receipts": {
    theme: "busy",
    seams: {
      hostStore: (store) =>
        withMethods(store, {
          commit: (change) => store.commit({ ...change, receipts: [] }),
          findReceipts: async () => [],
        }),
    },
  },

  "uses ids of run requests again": {
    theme: "busy",
    foundBy: 3,
    seams: {
      hostIds: () => {
        let count = 0;
        return () => `again${count++ % 4}`;
      },
    },
  },

  "lets readers go live before the bus has acknowledged": {
    theme: "busy",
    foundBy: 3,
    seams: { gatewayBus: hasty },
  },

  "counts every session that a returning client does not name, and that has ended, as told": {
    theme: "absent",
    foundBy: 28,
    seams: {
      resumePosition: (text) => connectionPosition({ ...parseConnectionPosition(text)!, known: undefined }),
    },
  },

  "keeps its floors though the store answers other nodes and not this one": {
    theme: "isolated",
    seams: { storeWatch: () => undefined },
  },

  "believes the first comparison that shows another time": {
    theme: "erring",
    seams: { databaseTime: (offsetMs) => new Credulous(offsetMs) },
  },

  "lets every session be heard beneath every other": {
    theme: "together",
    seams: { hostCatalog: (catalog) => withAgents(catalog, { beneath: [["all", -6]], whenPreempted: "duck" }) },
  },

  "restricts no session": {
    theme: "together",
    foundBy: 6,
    seams: { hostCatalog: (catalog) => ({ ...catalog, restrictions: [] }) },
  },

  "leaves the sessions on the floor that a new one replaces": {
    theme: "together",
    foundBy: 12,
    seams: { hostCatalog: (catalog) => withAgents(catalog, { replaces: [] }) },
  },

  "lets a change of one flag take the others away": {
    theme: "together",
    seams: {
      serve: (serve) => (envelope) => {
        const { command } = envelope;
        if (command.type !== "floor.patch_flags") return serve(envelope);
        return serve({ ...envelope, command: { ...command, type: "floor.flags" } });
      },
    },
  },

  "takes a page that ends early for the end of the log": {
    theme: "heavy",
    foundBy: 2,
    seams: {
      gatewayStore: (store) =>
        withMethods(store, {
          readSessionLog: async (id, after, limit) => {
            const slice = await store.readSessionLog(id, after, limit);
            return slice && endEarly(slice, limit, ({ seq }) => seq!);
          },
          readFloorLog: async (id, after, limit) =>
            endEarly(await store.readFloorLog(id, after, limit), limit, ({ floorSeq }) => floorSeq),
        }),
    },
  },

  "does not notice that a reader takes nothing": { theme: "slow", foundBy: 18, seams: { respond: withoutBacklog } },
};

/** A response whose writes always report that the data was accepted. */
function withoutBacklog(response: ServerResponse): ServerResponse {
  return new Proxy(response, {
    get(target, name, itself) {
      if (name === "socket") return itself;
      if (name === "writableLength") return 0;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A page with fewer entries than were asked for counts as the last one. */
function endEarly(slice: LogSlice, limit: number, placeOf: (entry: LogEntry) => number): LogSlice {
  const last = slice.entries.at(-1);
  return last && slice.entries.length < limit ? { ...slice, head: placeOf(last) } : slice;
}

/** The catalogue with other keys for all its agents, if its floors can be shared. */
function withAgents(catalog: Catalog, change: Partial<AgentEntry>): Catalog {
  if (!catalog.isShared) return catalog;
  return { ...catalog, agents: new Map([...catalog.agents].map(([id, agent]) => [id, { ...agent, ...change }])) };
}

/** Every comparison counts at once. */
class Credulous extends DatabaseTime {
  override compare(offsetMs: number): boolean {
    super.compare(offsetMs);
    return super.compare(offsetMs);
  }
}

class CarelessStore extends MemoryStore {
  override commit(change: FloorChange): Promise<CommitOutcome> {
    return super.commit({ ...change, expected: this.versionOf(change.floorId) });
  }
}

/** A report of any attempt of a running run counts as the expected one. */
function asCurrent(command: Command, memory: MemoryStore): Command {
  if (command.type !== "run.report" && command.type !== "run.still") return command;
  const row = memory.rowOf(command.sessionId);
  const run = row && (JSON.parse(row.memory) as Pick<SessionContext, "run">).run;
  if (!run?.live || run.id !== command.runId || run.attempt === command.attempt) return command;
  const { attempt } = run;
  return command.type === "run.still" ? { ...command, attempt } : { ...command, attempt, n: run.reported + 1 };
}

/** A bus that reports a subscription before it takes effect. */
function hasty(bus: Bus): Bus {
  return withMethods(bus, {
    subscribe: async (topic, listener) => {
      const subscribed = bus.subscribe(topic, listener).catch(() => undefined);
      return { end: () => void subscribed.then((subscription) => subscription?.end()) };
    },
  });
}
