import { describe, expect, test } from "vitest";
import type { FloorId, MessageId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import { floorHash } from "../../../src/protocol/internal/hash.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import { FloorWriter, makeMessage, NOON, type WrittenChange } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
const M = "m" as MessageId;

export function commitContract(stage: StoreStage): void {
  describe("commits", () => {
    test("an unused floor has no record, and a committed one is read back unchanged, with its version raised by one", async () => {
      const { store } = stage;
      const floor = new FloorWriter(store, "u:ann/rear-left");
      expect(await store.loadFloor(floor.id)).toBeUndefined();
      expect(await store.confirm(floor.id, 0)).toBe(true);
      floor.event("floor_updated", {});
      expect(await floor.write({ snapshot: '{"name":"安"}', format: 3 })).toBe("committed");
      expect(await store.loadFloor(floor.id)).toEqual({ version: 1, head: 1, snapshot: '{"name":"安"}', format: 3 });
      expect(await store.confirm(floor.id, 1)).toBe(true);
    });

    // W1.
    test("a change made from another version is a conflict, and is not written", async () => {
      const { store, floor } = stage;
      await floor.write({ sessions: [floor.session("a")] });
      const head = { head: floor.head };
      for (const expected of [0, 2]) {
        const change = floor.change({
          sessions: [floor.session("a", { title: "Changed" }), floor.session("b")],
          messages: [{ kind: "add", message: makeMessage("a", "m") }],
          receipts: [floor.receipt("c")],
          events: [floor.event("floor_updated", {})],
        });
        expect(await store.commit({ ...change, expected })).toBe("conflict");
      }
      expect(await store.loadFloor(floor.id)).toMatchObject({ version: 1, ...head });
      expect(await store.readFloorLog(floor.id, 0, 9)).toEqual({ entries: [], ...head, lowWater: 0 });
      expect((await store.loadSession(A))?.session.title).toBe("New Session");
      expect(await store.loadSession("b" as SessionId)).toBeUndefined();
      expect(await store.findMessage(A, M)).toBeUndefined();
      expect(await store.findReceipts([{ caller: "ann", commandId: "c" }])).toEqual([]);
    });

    // W2.
    test("changes of two floors are committed together, and a conflict of either writes nothing of both", async () => {
      const { store, floor } = stage;
      const other = new FloorWriter(store, "u:ann/rear");
      await floor.write({ sessions: [floor.session("a")] });
      await other.write({ sessions: [other.session("b")] });
      const heads = [floor.head, other.head];
      const both = () => ({
        own: floor.change({
          sessions: [floor.session("a", { title: "Here" }), floor.session("c")],
          messages: [{ kind: "add", message: makeMessage("a", "m") }],
          events: [floor.event("floor_updated", {})],
          receipts: [floor.receipt("move")],
        }),
        along: other.change({
          sessions: [other.session("b", { title: "There" })],
          events: [other.event("floor_updated", {})],
        }),
      });
      const titleOf = async (id: string) => (await store.loadSession(id as SessionId))?.session.title;
      const late = both();
      expect(await store.commit({ ...late.own, along: { ...late.along, expected: 7 } })).toBe("conflict");
      expect(await store.commit({ ...late.own, expected: 7, along: late.along })).toBe("conflict");
      expect([await titleOf("a"), await titleOf("b"), await titleOf("c")]).toEqual([
        "New Session",
        "New Session",
        undefined,
      ]);
      expect(await store.findMessage(A, M)).toBeUndefined();
      expect(await store.findReceipts([{ caller: "ann", commandId: "move" }])).toEqual([]);
      const found = [await store.loadFloor(floor.id), await store.loadFloor(other.id)];
      expect(found.map((each) => each?.head)).toEqual(heads);
      expect(await store.commit({ ...late.own, along: late.along })).toBe("committed");
      expect([await titleOf("a"), await titleOf("b"), await titleOf("c")]).toEqual(["Here", "There", "New Session"]);
      expect((await store.findMessage(A, M))?.id).toBe(M);
      // From the version before, and then from that after: what the store remembers of both floors is right.
      expect(await store.commit({ ...late.own, along: late.along })).toBe("conflict");
      expect(await store.confirm(floor.id, 2)).toBe(true);
      expect(await store.confirm(other.id, 2)).toBe(true);
    });

    test("of changes of the same two floors at once, in both directions, exactly one is committed", async () => {
      const { store, floor } = stage;
      const other = new FloorWriter(store, "u:ann/rear");
      const outcomes = await Promise.all(
        Array.from({ length: 16 }, (_, n) => {
          const [own, along] = n % 2 === 0 ? [floor.change(), other.change()] : [other.change(), floor.change()];
          return store.commit({ ...own, along });
        }),
      );
      expect(outcomes.filter((outcome) => outcome === "committed")).toHaveLength(1);
    });

    test("several sessions are read together, and missing ones are left out", async () => {
      const { store, floor } = stage;
      await floor.write({ sessions: [floor.session("a"), floor.session("b")] });
      const rows = await store.loadSessions(["b", "missing", "a"] as SessionId[]);
      const both = [await store.loadSession(A), await store.loadSession("b" as SessionId)];
      expect(rows.toSorted((one, other) => one.session.id.localeCompare(other.session.id))).toEqual(both);
      expect(await store.loadSessions([])).toEqual([]);
    });

    test("exactly one of many concurrent changes from the same version is committed", async () => {
      const { store, floor } = stage;
      const outcomes = await Promise.all(Array.from({ length: 20 }, () => store.commit(floor.change())));
      expect(outcomes.filter((outcome) => outcome === "committed")).toHaveLength(1);
      expect((await store.loadFloor(floor.id))?.version).toBe(1);
    });

    test("changes of one floor that are sent without waiting are committed in their order", async () => {
      const { store, floor } = stage;
      const changes = Array.from({ length: 50 }, (_, expected) => ({ ...floor.change(), expected }));
      const outcomes = await Promise.all(changes.map((change) => store.commit(change)));
      expect(new Set(outcomes)).toEqual(new Set(["committed"]));
      expect((await store.loadFloor(floor.id))?.version).toBe(50);
    });

    // W10.
    test("a conflict or a fault of one floor does not affect other floors of the same group", async () => {
      const { store } = stage;
      const floors = Array.from({ length: 40 }, (_, index) => new FloorWriter(store, `u:user${index}`));
      await floors[7]!.write();
      const results = await Promise.allSettled(
        floors.map((floor, index) => {
          const sessions = [floor.session(`s${index}`)];
          const log = { id: "1", stream: "stdout", text: "", timestamp: NOON } as const;
          const orphan = { sessionId: `s${index}` as SessionId, messageId: "nothing" as MessageId, line: log };
          if (index === 7) return store.commit({ ...floor.change({ sessions }), expected: 0 });
          return store.commit(floor.change({ sessions, logs: index === 11 ? [orphan] : [] }));
        }),
      );
      const outcomes = results.map((result) => (result.status === "fulfilled" ? result.value : "fault"));
      const expected = floors.map((_, index) => (index === 7 ? "conflict" : index === 11 ? "fault" : "committed"));
      expect(outcomes).toEqual(expected);
      expect(await store.loadFloor(floors[11]!.id)).toBeUndefined();
      expect(await store.loadSession("s11" as SessionId)).toBeUndefined();
      expect(await store.loadSession("s12" as SessionId)).toBeDefined();
    });

    // W3, with the two on ids below.
    test("a receipt's key is unique across all floors", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      const receipt = ann.receipt("c-1", { reply: '{"ok":true,"text":"…"}' });
      expect(await ann.write({ receipts: [receipt] })).toBe("committed");
      // All of them or none.
      const receipts = [bob.receipt("c-0"), bob.receipt("c-1")];
      expect(await bob.write({ receipts, sessions: [bob.session("b")] })).toBe("conflict");
      expect(await ann.write({ receipts: [ann.receipt("c-0"), ann.receipt("c-1")] })).toBe("conflict");
      expect(await store.loadFloor(bob.id)).toBeUndefined();
      expect(await store.loadSession("b" as SessionId)).toBeUndefined();
      expect(await bob.write({ receipts: [bob.receipt("c-1", { caller: "bob" })] })).toBe("committed");
      const keys = ["c-0", "c-1", "c-2"].map((commandId) => ({ caller: "ann", commandId }));
      expect(await store.findReceipts(keys)).toEqual([receipt]);
    });

    test("the newest receipts are read back, newest first", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      for (const [floor, commandId, at] of [
        [ann, "c-0", 1],
        [bob, "c-1", 2],
        [ann, "c-2", 3],
      ] as const)
        await floor.write({ receipts: [floor.receipt(commandId, { at, reply: "{}" })] });
      const read = async (since: number, limit: number) =>
        (await store.newestReceipts(since, limit)).map(({ commandId, at, reply }) => `${commandId} ${at} ${reply}`);
      expect(await read(2, 10)).toEqual(["c-2 3 {}", "c-1 2 {}"]);
      expect(await read(0, 1)).toEqual(["c-2 3 {}"]);
      expect(await read(4, 10)).toEqual([]);
    });

    test("a change that uses a key twice is a conflict, and leaves nothing", async () => {
      const { store, floor } = stage;
      expect(await floor.write({ receipts: [floor.receipt("c"), floor.receipt("c")] })).toBe("conflict");
      expect(await store.loadFloor(floor.id)).toBeUndefined();
    });

    test("a session's id is unique across all floors", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      await ann.write({ sessions: [ann.session("a")] });
      expect(await bob.write({ sessions: [bob.session("a")] })).toBe("conflict");
      expect((await store.whereIs(A))?.floorId).toBe("u:ann");
    });

    // W4.
    test("a change that creates an id writes nothing if the id is or was in use", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      const make = (floor: FloorWriter, id: string) =>
        floor.write({
          newIds: [id as SessionId],
          sessions: [floor.session(id)],
          receipts: [floor.receipt(`${id}${floor.version}`)],
        });
      expect(await make(ann, "a")).toBe("committed");
      for (const floor of [ann, bob]) expect(await make(floor, "a"), floor.id).toBe("conflict");
      expect(await bob.write({ newIds: ["b" as SessionId, A] })).toBe("conflict");
      await ann.delete("a");
      for (const floor of [ann, bob]) expect(await make(floor, "a"), floor.id).toBe("conflict");
      expect([ann.version, bob.version, await store.loadFloor(bob.id)]).toEqual([2, 0, undefined]);
      expect(await make(bob, "b")).toBe("committed");
      expect((await store.whereIs("b" as SessionId))?.floorId).toBe("u:bob");
    });

    test("a message's id is unique in its session, and free in any other", async () => {
      const { store, floor } = stage;
      const add = (session: string, content: string) => ({
        sessions: [floor.session(session)],
        messages: [{ kind: "add" as const, message: makeMessage(session, "m", { content }) }],
      });
      expect(await floor.write(add("a", "first"))).toBe("committed");
      expect(await floor.write(add("a", "second"))).toBe("conflict");
      expect(await floor.write(add("b", "other"))).toBe("committed");
      expect((await store.findMessage(A, M))?.content).toBe("first");
    });

    // W5.
    test("a change writes to sessions of its own floor only, or nothing", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      await ann.write({ sessions: [ann.session("a")], messages: [{ kind: "add", message: makeMessage("a", "m") }] });
      await bob.write({ sessions: [bob.session("b")] });
      const line = { id: "1", stream: "stdout", text: "", timestamp: NOON } as const;
      const changes: WrittenChange[] = [
        { messages: [{ kind: "add", message: makeMessage("a", "n") }] },
        { messages: [{ kind: "append", sessionId: A, id: M, text: "x" }] },
        { logs: [{ sessionId: A, messageId: M, line }] },
        { events: [bob.event("session_updated", {}, { session: "a" })] },
        { events: [bob.event("session_updated", {}, { session: "missing" })] },
      ];
      for (const change of changes) {
        const outcome = await store
          .commit(bob.change({ ...change, receipts: [bob.receipt("c")] }))
          .catch(() => "fault");
        expect(outcome, JSON.stringify(change)).toBe("fault");
      }
      expect((await store.loadFloor(bob.id))?.version).toBe(1);
      expect(await store.findReceipts([{ caller: "bob", commandId: "c" }])).toEqual([]);
      expect((await store.findMessage(A, M))?.content).toBe(makeMessage("a", "m").content);
      expect(await store.findMessage(A, "n" as MessageId)).toBeUndefined();
    });

    test("a session's row is replaced completely, with its machine's context", async () => {
      const { store, floor } = stage;
      const over = { summary: "About jazz", zone: "rear", ownerId: "o", workspaceId: "w", queuedAt: NOON };
      const event = floor.event("session_created", {}, { session: "a" });
      await floor.write({ sessions: [floor.session("a", over)], memory: '{"turns":[]}', events: [event] });
      const written = { session: floor.session("a", over), memory: '{"turns":[]}', head: 1 };
      expect(await store.loadSession(A)).toEqual(written);
      await floor.write({ sessions: [floor.session("a", { title: "Jazz" })] });
      expect((await store.loadSession(A))?.session).toEqual(floor.session("a", { title: "Jazz" }));
    });

    test("a message grows, is finished, and is found with all its fields", async () => {
      const { store, floor } = stage;
      const agent = { kind: "master" as const, name: "music_agent", depth: 0, path: ["music_agent"] };
      const draft = makeMessage("a", "m", { role: "assistant", content: "Blue", status: "running", agent });
      await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message: draft }] });
      await floor.write({ messages: [{ kind: "append", sessionId: A, id: M, text: " in Gr" }] });
      await floor.write({ messages: [{ kind: "append", sessionId: A, id: M, text: "een 🎷" }] });
      expect(await store.findMessage(A, M)).toEqual({ ...draft, content: "Blue in Green 🎷" });
      expect(await store.loadDrafts(floor.id)).toEqual({ messages: [{ ...draft, content: "Blue in Green 🎷" }] });
      await floor.write({ messages: [{ kind: "status", sessionId: A, id: M, status: "interrupted" }] });
      expect(await store.loadDrafts(floor.id)).toEqual({ messages: [] });
      const end = { status: "success" as const, content: "So what", parts: [{ type: "x" }], finishedAt: NOON };
      const done = { ...draft, ...end };
      await floor.write({ messages: [{ kind: "put", message: done }] });
      expect(await store.findMessage(A, M)).toEqual(done);
      await floor.write({ messages: [{ kind: "remove", sessionId: A, id: M }] });
      expect(await store.findMessage(A, M)).toBeUndefined();
    });

    test("the drafts of a floor are only that floor's", async () => {
      const { store } = stage;
      for (const id of ["u:ann", "u:bob"]) {
        const floor = new FloorWriter(store, id);
        const message = makeMessage(id.slice(2), "m", { status: "running" });
        await floor.write({ sessions: [floor.session(id.slice(2))], messages: [{ kind: "add", message }] });
      }
      const { messages } = await store.loadDrafts("u:bob" as FloorId);
      expect(messages.map(({ sessionId }) => sessionId)).toEqual(["bob"]);
    });

    test("due run requests are read by time and id, in pages", async () => {
      const { store, floor } = stage;
      const run = {
        ...{ kind: "run", id: "r", floorId: floor.id, dueAt: 20, sessionId: "a", runId: "r1", agentId: "music_agent" },
        ...{ priority: 20, trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
      } as RunRequest;
      const other = (id: string, dueAt: number) => ({ kind: "run", id, floorId: floor.id, dueAt }) as RunRequest;
      const requests = [other("z", 30), run, other("b", 20), other("a", 10), other("late", 40)];
      await floor.write({ runRequestsAdded: requests });
      const due = await store.dueRunRequests({ until: 30, limit: 10 });
      expect(due).toEqual([other("a", 10), other("b", 20), run, other("z", 30)]);
      expect(await store.dueRunRequests({ until: 30, limit: 2 })).toEqual(due.slice(0, 2));
      expect(await store.dueRunRequests({ until: 30, after: due[1], limit: 10 })).toEqual(due.slice(2));
      await floor.write({ runRequestsRemoved: ["a", "b", "unknown"] as RunRequestId[] });
      const left = await store.dueRunRequests({ until: 30, limit: 10 });
      expect(left.map(({ id }) => id)).toEqual(["r", "z"]);
    });

    test("a query for due run requests selects the floors' hashes", async () => {
      const { store } = stage;
      const floors = Array.from({ length: 12 }, (_, index) => new FloorWriter(store, `u:user${index}`));
      const runOf = ({ id }: FloorWriter, index: number) =>
        ({ kind: "run", id: `t${index}`, floorId: id, dueAt: 100 - index }) as RunRequest;
      await Promise.all(floors.map((floor, index) => floor.write({ runRequestsAdded: [runOf(floor, index)] })));
      const due = async (floorHashes: number[] | undefined, after?: RunRequest) => {
        const requests = await store.dueRunRequests({ until: 100, floorHashes, after, limit: 5 });
        return requests.map(({ id }) => id);
      };
      const own = [7, 2, 11].map((index) => floorHash(floors[index]!.id));
      const wanted = floors.flatMap(({ id }, index) => (own.includes(floorHash(id)) ? [`t${index}`] : [])).reverse();
      expect(wanted).toEqual(expect.arrayContaining(["t11", "t7", "t2"]));
      expect(wanted.length).toBeLessThan(6);
      expect(await due(own)).toEqual(wanted);
      expect(await due(own, runOf(floors[11]!, 11))).toEqual(wanted.slice(1));
      expect(await due([])).toEqual([]);
      expect(await due(undefined)).toHaveLength(5);
    });

    test("the floors whose alarm is due are read by time and id, in pages, and by the floors' hashes", async () => {
      const { store } = stage;
      const alarms = [30, 10, undefined, 20, 10].map((alarm, index) => ({ alarm, id: `u:user${index}` }));
      const floors = alarms.map(({ id }) => new FloorWriter(store, id));
      for (const [index, { alarm }] of alarms.entries()) await floors[index]!.write({ alarm });
      const at = (index: number) => ({ id: floors[index]!.id, dueAt: alarms[index]!.alarm });
      const due = await store.dueAlarms({ until: 20, limit: 10 });
      expect(due).toEqual([at(1), at(4), at(3)]);
      expect(await store.dueAlarms({ until: 30, after: due[0], limit: 2 })).toEqual([at(4), at(3)]);
      const floorHashes = [floorHash(floors[3]!.id)];
      expect(await store.dueAlarms({ until: 30, floorHashes, limit: 10 })).toContainEqual(at(3));
      expect(await store.dueAlarms({ until: 30, floorHashes: [], limit: 10 })).toEqual([]);
      expect((await store.loadFloor(floors[1]!.id))?.alarm).toBe(10);
      await floors[1]!.write({ alarm: 25 });
      await floors[4]!.write({});
      expect(await store.dueAlarms({ until: 30, limit: 10 })).toEqual([at(3), { id: floors[1]!.id, dueAt: 25 }, at(0)]);
      expect((await store.loadFloor(floors[4]!.id))?.alarm).toBeUndefined();
    });

    test("the sessions of a floor with a deadline are read, the earliest first, without some of them", async () => {
      const { store } = stage;
      for (const [id, sessions] of [
        ["u:ann", { a: 20, b: undefined, c: 10, d: 10, e: 30 }],
        ["u:bob", { f: 1 }],
      ] as const) {
        const floor = new FloorWriter(store, id);
        const rows = Object.entries(sessions).map(([name, dueAt]) => {
          const [row] = floor.change({ sessions: [floor.session(name)] }).sessions;
          return { ...row!, due_at: dueAt };
        });
        expect(await store.commit({ ...floor.change(), sessions: rows })).toBe("committed");
      }
      const due = async (limit: number, ...except: string[]) => {
        const rows = await store.loadDue("u:ann" as FloorId, except as SessionId[], limit);
        return rows.map(({ session, dueAt, memory, head }) => [session.id, dueAt, memory, head]);
      };
      const rows = (...wanted: [string, number][]) => wanted.map((row) => [...row, "{}", 0]);
      expect(await due(10)).toEqual(rows(["c", 10], ["d", 10], ["a", 20], ["e", 30]));
      expect(await due(2, "c", "e")).toEqual(rows(["d", 10], ["a", 20]));
      expect(await due(10, "a", "c", "d", "e")).toEqual([]);
    });
  });
}
