import { describe, expect, test } from "vitest";
import type { RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { StoredRunQuery } from "../../../src/store/store.ts";
import { NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const failure = (at?: number) => {
  const known = { errorCode: "provider_refused" as const, message: "No.", runId: "r" as RunId };
  return { failure: { ...known, ...(at !== undefined && { at }) } };
};

/** Lists of runs, for plans: one of each form. */
export const RUN_QUERIES: StoredRunQuery[] = (["unfinished", "failed"] as const).flatMap((kind) => [
  { kind, limit: 10 },
  { kind, ownerId: "o7", limit: 10 },
  { kind, userId: "u7", from: 1, to: 2, limit: 10 },
  { kind, after: { at: 1, sessionId: "s1" as SessionId }, runId: "r1" as RunId, limit: 10 },
]);

export function runListContract(stage: StoreStage): void {
  describe("lists of runs", () => {
    const list = async (query: Partial<StoredRunQuery>) => {
      const { sessions, hasMore } = await stage.store.listRuns({ kind: "unfinished", limit: 10, ...query });
      return `${sessions.map(({ session }) => session.id).join(" ")}${hasMore ? " …" : ""}`;
    };
    const busy = (id: string, runsAt: number, over: object = {}) =>
      stage.floor.write({
        sessions: [stage.floor.session(id, over)],
        memory: `{"run":{"id":"run-${id}"}}`,
        runsAt,
      });

    test("sessions with unfinished runs are listed by how long they have had some, and leave the list with their runs", async () => {
      await busy("b", NOON + 2);
      await busy("c", NOON + 1);
      await busy("a", NOON + 2);
      await stage.floor.write({ sessions: [stage.floor.session("idle")] });
      expect(await list({})).toBe("c a b");
      await stage.floor.write({ sessions: [stage.floor.session("c")] });
      expect(await list({})).toBe("a b");
      const { sessions } = await stage.store.listRuns({ kind: "unfinished", limit: 1 });
      expect(sessions).toMatchObject([{ memory: '{"run":{"id":"run-a"}}', at: NOON + 2, session: { id: "a" } }]);
    });

    test("sessions of which a run failed are listed by the failure, the newest first, archived ones too", async () => {
      const { floor } = stage;
      const sessions = [
        floor.session("a", failure(NOON + 1)),
        floor.session("b", { ...failure(NOON + 3), state: "archived" }),
        // As a release wrote it that did not say when.
        floor.session("c", { ...failure(), lastActivityAt: NOON + 2 }),
        floor.session("d"),
      ];
      await floor.write({ sessions });
      expect(await list({ kind: "failed" })).toBe("b c a");
      await floor.write({ sessions: [floor.session("b")] });
      expect(await list({ kind: "failed" })).toBe("c a");
      expect(await list({})).toBe("");
    });

    test("a list of runs satisfies all given filters together", async () => {
      await busy("a", NOON + 1, { ownerId: "ann" });
      await busy("b", NOON + 2, { ownerId: "ann", userId: "bob" });
      await busy("c", NOON + 3, { ownerId: "bob", userId: "bob" });
      expect(await list({ ownerId: "ann" })).toBe("a b");
      expect(await list({ userId: "bob" })).toBe("b c");
      expect(await list({ ownerId: "ann", userId: "bob" })).toBe("b");
      expect(await list({ from: NOON + 2 })).toBe("b c");
      expect(await list({ to: NOON + 2 })).toBe("a b");
      expect(await list({ runId: "run-c" as RunId })).toBe("c");
      expect(await list({ runId: "run-" as RunId })).toBe("");
    });

    test("pages of runs follow each other without a gap, also among sessions of the same moment", async () => {
      for (const id of ["d", "a", "c", "b"]) await busy(id, NOON);
      expect(await list({ limit: 3 })).toBe("a b c …");
      expect(await list({ limit: 4 })).toBe("a b c d");
      expect(await list({ limit: 3, after: { at: NOON, sessionId: "b" as SessionId } })).toBe("c d");
      const { floor } = stage;
      await floor.write({ sessions: ["d", "a", "c"].map((id) => floor.session(id, failure(NOON))) });
      expect(await list({ kind: "failed", limit: 2 })).toBe("d c …");
      expect(await list({ kind: "failed", after: { at: NOON, sessionId: "c" as SessionId } })).toBe("a");
    });

    test("a session whose oldest run ends keeps its place while it has others, so no page repeats it", async () => {
      for (const [index, id] of ["a", "b", "c"].entries()) await busy(id, NOON + index);
      expect(await list({ limit: 1 })).toBe("a …");
      await busy("a", NOON + 9);
      await busy("b", NOON + 8);
      const rest = { after: { at: NOON, sessionId: "a" as SessionId } };
      expect(await list(rest)).toBe("b c");
      expect(await list({})).toBe("a b c");
      // It has been without a run since.
      await stage.floor.write({ sessions: [stage.floor.session("a")] });
      await busy("a", NOON + 9);
      expect(await list({})).toBe("b c a");
    });

    test("pages of runs end with the session that reaches the size limit", async () => {
      const { floor } = stage;
      const memory = JSON.stringify({ run: { id: "run", note: "x".repeat(600_000) } });
      for (const [index, id] of ["a", "b", "c"].entries())
        await floor.write({ sessions: [floor.session(id)], memory, runsAt: NOON + index });
      expect(await list({})).toBe("a b …");
    });
  });
}
