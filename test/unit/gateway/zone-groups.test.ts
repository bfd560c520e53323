import { expect, test } from "vitest";
import { LOCAL } from "../../../src/gateway/access/caller.ts";
import type { Identity, Write } from "../../../src/gateway/idempotent-commands.ts";
import { askInAllZones } from "../../../src/gateway/zone-groups.ts";
import { AppError } from "../../../src/protocol/errors.ts";

type Context = Parameters<typeof askInAllZones>[0];

/** Floors that commit each command with the receipt of its key, until the node is lost. */
class Floors {
  open = ["u:house/attic", "u:house/kitchen", "u:house/study"];
  readonly created = new Map<string, object>();
  readonly #receipts = new Map<string, object>();
  /** Commits until the node is lost. */
  left = Number.POSITIVE_INFINITY;

  readonly context = {
    commands: {
      deriveId: ({ commandId }: Identity, kind: string) => `${commandId}|${kind}`,
      positionOf: () => ({}),
      carryOut: async ({ commandId }: Identity, plan: () => Promise<Write>) => {
        const before = this.#receipts.get(commandId);
        if (before) return before;
        const { floorId, command } = await plan();
        const meanwhile = this.#receipts.get(commandId);
        if (meanwhile) return meanwhile;
        if (this.left <= 0) throw new AppError("unavailable", undefined, { facts: { commandId } });
        this.left -= 1;
        const { sessionId, session } = command as { sessionId: string; session: object };
        if (this.created.has(sessionId)) throw new Error(`${sessionId} is created twice`);
        const reply = { ok: true, sessionId, session: { id: sessionId, floorId, ...session } };
        this.created.set(sessionId, reply.session);
        this.#receipts.set(commandId, reply);
        return reply;
      },
    },
    visibleTo: () => ({ floorsOfUser: async () => this.open }),
  } as unknown as Context;
}

test.each([0, 1, 2])(
  "a repeat completes what a node left that was lost after %i commits, and asks on the same floors",
  async (left) => {
    const floors = new Floors();
    const identity = { caller: LOCAL, commandId: "k", bodyHash: "", mayBeRepeat: true };
    const ask = () => askInAllZones(floors.context, identity, { wanted: { userId: "house" } });
    floors.left = left;
    const lost = await ask().catch((error) => error);
    expect([lost.code, lost.facts.commandId]).toEqual(["unavailable", "k"]);
    expect(floors.created.size).toBe(left);
    floors.left = Number.POSITIVE_INFINITY;
    if (left > 0) floors.open = ["u:house/attic", "u:house/cellar", "u:house/kitchen", "u:house/study"];
    const { zones } = await ask();
    expect(zones.map(({ zone }) => zone)).toEqual(["attic", "kitchen", "study"]);
    expect([...floors.created.keys()].toSorted()).toEqual(zones.map(({ sessionId }) => sessionId).toSorted());
    expect((await ask()).zones).toEqual(zones);
  },
);

test("of two equal requests at once that find other floors open, one is carried out, and both have its answer", async () => {
  const floors = new Floors();
  const identity = { caller: LOCAL, commandId: "k", bodyHash: "", mayBeRepeat: true };
  const ask = () => askInAllZones(floors.context, identity, { wanted: { userId: "house" } });
  const first = ask();
  floors.open = ["u:house/annex", "u:house/attic", "u:house/kitchen", "u:house/study"];
  const [one, other] = await Promise.all([first, ask()]);
  expect(other).toEqual(one);
  expect([...floors.created.keys()].toSorted()).toEqual(one.zones.map(({ sessionId }) => sessionId).toSorted());
});
