import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { FloorId, MessageId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import type { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { Chance } from "../../support/runner/chance.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { DAY, FloorWriter, makeMessage, NOON, type WrittenChange } from "../../support/stores/floor-writer.ts";

const A = "a" as SessionId;
/** Run requests of a floor at a time: enough that moving or removing them takes time. */
const RUN_REQUESTS = 90;

describeWith([POSTGRES], "several nodes on one PostgreSQL store", (start) => {
  const server = serverOf(start);

  /** Nodes on an empty database, with fewer connections than concurrent statements. */
  async function openNodes(count: number): Promise<{ nodes: PostgresStore[]; url: string }> {
    const url = await makeDatabase(server());
    // Before a statement stops waiting for its lock, which would hide the race.
    await askDatabase(url, `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET deadlock_timeout = '100ms'`);
    return { url, nodes: await Promise.all(Array.from({ length: count }, () => openNode(url, { connections: 6 }))) };
  }

  /** A transaction that locks floors until it is committed. */
  async function lock(url: string, floors: readonly FloorWriter[]): Promise<pg.Client> {
    const holder = new pg.Client(url);
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query("BEGIN");
    await holder.query("SELECT FROM interlock.floors WHERE id = ANY ($1) FOR UPDATE", [floors.map(({ id }) => id)]);
    return holder;
  }

  async function countDeadlocks(nodes: readonly PostgresStore[], url: string): Promise<unknown> {
    // A connection reports its statistics when it ends.
    await Promise.all(nodes.map((node) => node.close()));
    const counted = "SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()";
    return (await askDatabase(url, counted))[0]!["deadlocks"];
  }

  test("of several writers of a floor's next version exactly one wins each time, and the stored rows are the winner's", async () => {
    const { nodes } = await openNodes(4);
    const id = "u:ann" as FloorId;
    for (let version = 0; version < 25; version++) {
      const titles = nodes.flatMap((_, node) => [`${version}.${node}.x`, `${version}.${node}.y`]);
      const outcomes = await Promise.all(
        titles.map((title, index) => {
          const floor = new FloorWriter(nodes[index % nodes.length]!, id);
          const change = floor.change({ sessions: [floor.session("a", { title })] });
          return nodes[index % nodes.length]!.commit({ ...change, expected: version, snapshot: title });
        }),
      );
      const winners = titles.filter((_, index) => outcomes[index] === "committed");
      expect(winners).toHaveLength(1);
      const record = await nodes[0]!.loadFloor(id);
      expect([record?.version, record?.snapshot]).toEqual([version + 1, winners[0]]);
      expect((await nodes[1]!.loadSession(A))?.session.title).toBe(winners[0]);
    }
  });

  test("many nodes write many floors at once, and each floor has all its versions", async () => {
    const { nodes } = await openNodes(3);
    const floors = Array.from({ length: 30 }, (_, n) => new FloorWriter(nodes[n % 3]!, `u:${n}`));
    await Promise.all(
      floors.map(async (floor, n) => {
        for (let turn = 0; turn < 12; turn++) {
          const event = floor.event("data", { turn }, { session: `s${n}` });
          expect(await floor.write({ sessions: [floor.session(`s${n}`)], events: [event] })).toBe("committed");
        }
      }),
    );
    const heads = await nodes[0]!.heads(floors.map(({ id }) => id));
    expect([...heads.values()]).toEqual(floors.map(() => 12));
    const log = await nodes[2]!.readFloorLog(floors[7]!.id, 0, 100);
    expect(log.entries.map(({ floorSeq }) => floorSeq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  });

  test("changes that need each other's keys, in any order, never wait for each other", async () => {
    const { nodes, url } = await openNodes(3);
    const chance = new Chance(20);
    const shuffled = () => {
      const names = Array.from({ length: 40 }, (_, n) => ({ name: `n${n}`, place: chance.next() }));
      return names.sort((one, other) => one.place - other.place).slice(0, 30);
    };
    let committed = 0;
    for (let round = 0; round < 36; round++) {
      const changes = Array.from({ length: 12 }, (_, n) => {
        const floor = new FloorWriter(nodes[n % 3]!, `u:${round}.${n}`);
        const keys = shuffled().map(({ name }) => `${name}.${round}`);
        // One kind at a time, because a change that lost one key is not checked further.
        const kinds = [
          { sessions: keys.map((key) => floor.session(key)) },
          { receipts: keys.map((key) => floor.receipt(key)) },
          { runRequestsAdded: keys.map((key) => runOf(key, floor.id)) },
        ];
        return floor.write(kinds[round % kinds.length]);
      });
      for (const outcome of await Promise.all(changes)) if (outcome === "committed") committed += 1;
    }
    expect(committed).toBeGreaterThanOrEqual(36);
    expect(await countDeadlocks(nodes, url)).toBe(0);
  });

  test("floors that two nodes commit together, with the same keys in reverse order, never wait for each other", async () => {
    const { nodes, url } = await openNodes(2);
    const count = 30;
    for (let round = 0; round < 12; round++) {
      const changes = Array.from({ length: 2 * count }, (_, n) => {
        const place = Math.floor(n / 2);
        const floor = new FloorWriter(nodes[n % 2]!, `u:${String(n % 2)}.${String(place).padStart(2, "0")}.${round}`);
        const key = `${round}.${n % 2 ? place : count - 1 - place}`;
        return floor.write({ receipts: [floor.receipt(key)], runRequestsAdded: [runOf(floor.id, floor.id)] });
      });
      const outcomes = await Promise.all(changes);
      // Each key is taken once.
      expect(outcomes.filter((outcome) => outcome === "committed")).toHaveLength(count);
    }
    expect(await countDeadlocks(nodes, url)).toBe(0);
  });

  test("floors that are committed together each have their own outcome", async () => {
    const { nodes, url } = await openNodes(1);
    const floors = Array.from({ length: 24 }, (_, n) => new FloorWriter(nodes[0]!, `u:${n}`));
    const append = { kind: "append" as const, sessionId: "none" as SessionId, id: "m" as MessageId, text: "!" };
    const conflict = { change: { expected: 7 }, told: "conflict" };
    const taken = { change: { receipts: [1, 2].map(() => floors[12]!.receipt("once")) }, told: "conflict" };
    const invalid = { change: { messages: [append] }, told: "data" };
    // Four are sent separately, and the others with the next statements.
    const rounds: Record<number, { change: WrittenChange; told: string }>[] = [
      { 9: conflict },
      { 9: conflict, 12: taken, 15: invalid },
    ];
    for (const faults of rounds) {
      const outcomes = await Promise.allSettled(floors.map((floor, n) => floor.write(faults[n]?.change)));
      const results = outcomes.map((outcome) => (outcome.status === "rejected" ? outcome.reason.fault : outcome.value));
      expect(results).toEqual(floors.map((_, n) => faults[n]?.told ?? "committed"));
    }
    const stored = await Promise.all(floors.map(({ id }) => nodes[0]!.loadFloor(id)));
    const versions: Record<number, number> = { 9: 0, 12: 1, 15: 1 };
    expect(stored.map((record) => record?.version ?? 0)).toEqual(floors.map((_, n) => versions[n] ?? 2));
    expect(await askDatabase(url, "SELECT FROM interlock.receipts")).toEqual([]);
  });

  test("a commit waits only if its own floor is locked by another transaction: others continue meanwhile", async () => {
    const { nodes, url } = await openNodes(1);
    const floors = Array.from({ length: 24 }, (_, n) => new FloorWriter(nodes[0]!, `u:${n}`));
    await Promise.all(floors.map((floor) => floor.write()));
    const holder = await lock(url, [floors[13]!]);
    const held = floors[13]!.write();
    const others = floors.filter((_, n) => n !== 13).map((floor) => floor.write());
    expect(new Set(await Promise.all(others))).toEqual(new Set(["committed"]));
    await holder.query("COMMIT");
    expect(await held).toBe("committed");
  });

  test("floors that another transaction locks for long do not delay others, whatever their number", async () => {
    const { nodes, url } = await openNodes(1);
    const floors = Array.from({ length: 12 }, (_, n) => new FloorWriter(nodes[0]!, `u:${n}`));
    for (const floor of floors) await floor.write();
    const locked = floors.slice(6, 10);
    const others = floors.filter((floor) => !locked.includes(floor));
    const holder = await lock(url, locked);
    // Most are sent together, and only those that wait for a lock are unavailable in the end.
    const outcomes = await Promise.allSettled(floors.map((floor) => floor.write()));
    const told = outcomes.map((outcome) => (outcome.status === "rejected" ? outcome.reason.code : outcome.value));
    expect(told).toEqual(floors.map((floor) => (locked.includes(floor) ? "unavailable" : "committed")));
    const held = locked.map((floor) => floor.write());
    expect(new Set(await Promise.all(others.map((floor) => floor.write())))).toEqual(new Set(["committed"]));
    await holder.query("COMMIT");
    expect(new Set(await Promise.all(held))).toEqual(new Set(["committed"]));
  });

  test("pruning, and moving due run requests, run concurrently with commits on several nodes", async () => {
    const { nodes, url } = await openNodes(3);
    const floors = Array.from({ length: 10 }, (_, n) => new FloorWriter(nodes[n % 3]!, `u:${n}`));
    const runRequestIds = (n: number, turn: number) => {
      return Array.from(
        { length: RUN_REQUESTS },
        (_, place) => `${(place * 37 + n) % RUN_REQUESTS}.${n}.${turn}` as RunRequestId,
      );
    };
    let isWriting = true;
    const writing = Promise.all(
      floors.map(async (floor, n) => {
        for (let turn = 0; turn < 25; turn++) {
          const session = floor.session(`s${n}`, { state: turn % 2 ? "archived" : "created" });
          const outcome = await floor.write({
            sessions: [session],
            events: [floor.event("data", { turn }, { session: session.id, at: turn })],
            runRequestsAdded: runRequestIds(n, turn).map((id) => runOf(id, floor.id)),
            runRequestsRemoved: turn > 0 ? runRequestIds(n, turn - 1) : [],
            receipts: [floor.receipt(`${n}.${turn}`, { at: turn })],
          });
          expect(outcome).toBe("committed");
        }
      }),
    ).finally(() => {
      isWriting = false;
    });
    const limits = { now: NOON, receiptsBefore: NOON - DAY, eventsBefore: NOON, limit: 3 };
    const pruning = nodes.map(async (node) => {
      while (isWriting) await node.prune(limits);
    });
    await Promise.all([writing, ...pruning]);
    while (await nodes[0]!.prune({ ...limits, limit: 100 })) {}
    const heads = await nodes[0]!.heads(floors.map(({ id }) => id));
    expect([...heads.values()]).toEqual(floors.map(() => 25));
    // Each left the run requests of its last turn, and all receipts are old enough to be pruned.
    expect(await nodes[0]!.dueRunRequests({ until: NOON, limit: 1_000 })).toHaveLength(RUN_REQUESTS * floors.length);
    expect(await askDatabase(url, "SELECT FROM interlock.receipts")).toEqual([]);
    expect(await countDeadlocks(nodes, url)).toBe(0);
  });

  test("a reader gets a consistent view: a head and the rows that belong to it", async () => {
    const { nodes } = await openNodes(2);
    const [writer, reader] = nodes as [PostgresStore, PostgresStore];
    const floor = new FloorWriter(writer);
    let isWriting = true;
    const writing = (async () => {
      for (let n = 0; n < 150; n++) {
        const message = makeMessage("a", `m${n}`);
        const events = [floor.event("message", message, { session: "a" }), floor.event("arbitration", { n })];
        const holder = floor.session("a", { state: "active", messageCount: n + 1 });
        await floor.write({ sessions: [holder], messages: [{ kind: "add", message }], events });
      }
    })().finally(() => {
      isWriting = false;
    });
    let seen = 0;
    while (isWriting) {
      const [session, view, own, log, page] = await Promise.all([
        reader.viewSession(A, 1_000),
        reader.viewFloor(floor.id, { sessions: 5, decisions: 1_000 }),
        reader.readSessionLog(A, 0, 1_000),
        reader.readFloorLog(floor.id, 0, 1_000),
        reader.listMessages(A, { limit: 1_000 }),
      ]);
      if (!session || !own || !page) continue;
      seen += 1;
      expect([session.messages.length, session.session.messageCount]).toEqual([session.head, session.head]);
      expect(page.messages).toHaveLength(page.head);
      expect(own.entries).toHaveLength(own.head);
      expect(log.entries).toHaveLength(log.head);
      expect([2 * view.decisions.length, 2 * (view.holder?.messageCount ?? 0)]).toEqual([view.head, view.head]);
    }
    await writing;
    expect(seen).toBeGreaterThan(3);
  });

  test("a message that one node finished stays searchable when another node adds to it", async () => {
    const { nodes } = await openNodes(2);
    const floor = new FloorWriter(nodes[0]!);
    const draft = makeMessage("a", "m", { role: "assistant", status: "running", content: "turn left" });
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message: draft }] });
    const change = floor.change({
      messages: [
        { kind: "append", sessionId: A, id: draft.id, text: " at the harbour" },
        { kind: "status", sessionId: A, id: draft.id, status: "interrupted" },
      ],
    });
    expect(await nodes[1]!.commit(change)).toBe("committed");
    const query = { page: 0, pageSize: 1, includeArchived: false, q: "left harbour" };
    expect((await nodes[0]!.listSessions(query)).total).toBe(1);
    expect((await nodes[0]!.findMessage(A, draft.id))?.content).toBe("turn left at the harbour");
  });
});

function runOf(id: string, floorId: FloorId): RunRequest {
  return { kind: "run", id, floorId, dueAt: 1 } as RunRequest;
}
