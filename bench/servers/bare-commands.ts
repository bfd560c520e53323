import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createMachine, initialTransition, transition } from "xstate";
import { serveParent } from "../support/child.ts";

/**
 * The minimal server of durable commands: it parses, makes one transition, writes four rows (floor, session, event,
 * receipt) with one commit per iteration of the event loop (SQLite, `synchronous=FULL`), and answers.
 */
const machine = createMachine({
  initial: "active",
  states: { active: { on: { pause: "paused" } }, paused: { on: { resume: "active" } } },
  on: { rename: {} },
});

const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
const db = new DatabaseSync(join(folder, "bare.db"));
db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
  CREATE TABLE floors (id TEXT PRIMARY KEY, version INTEGER, snapshot TEXT);
  CREATE TABLE sessions (id TEXT PRIMARY KEY, state TEXT, at INTEGER);
  CREATE TABLE events (id INTEGER PRIMARY KEY, floor TEXT, seq INTEGER, data TEXT);
  CREATE TABLE receipts (id TEXT PRIMARY KEY, reply TEXT) WITHOUT ROWID;`);
const putFloor = db.prepare(
  "INSERT INTO floors VALUES (?, 1, ?) ON CONFLICT (id) DO UPDATE SET version = version + 1, snapshot = excluded.snapshot",
);
const putSession = db.prepare(
  "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, at = excluded.at",
);
const putEvent = db.prepare("INSERT INTO events (floor, seq, data) VALUES (?, ?, ?)");
const putReceipt = db.prepare("INSERT INTO receipts VALUES (?, ?)");

const floors = new Map<string, { snapshot: ReturnType<typeof initialTransition<typeof machine>>[0]; seq: number }>();
let waiting: (() => () => void)[] = [];
let serial = 0;

function commitLater(work: () => () => void): void {
  waiting.push(work);
  if (waiting.length > 1) return;
  setImmediate(() => {
    const group = waiting;
    waiting = [];
    db.exec("BEGIN IMMEDIATE");
    const answers = group.map((each) => each());
    db.exec("COMMIT");
    for (const answer of answers) answer();
  });
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { floor, type } = JSON.parse(Buffer.concat(chunks).toString()) as { floor: string; type: string };
    commitLater(() => {
      const known = floors.get(floor) ?? { snapshot: initialTransition(machine)[0], seq: 0 };
      const [snapshot] = transition(machine, known.snapshot, { type });
      const seq = known.seq + 1;
      floors.set(floor, { snapshot, seq });
      const reply = JSON.stringify({ success: true, floor, state: snapshot.value, seq });
      putFloor.run(floor, JSON.stringify({ value: snapshot.value }));
      putSession.run(floor, String(snapshot.value), Date.now());
      putEvent.run(floor, seq, JSON.stringify({ type, at: Date.now() }));
      putReceipt.run(`c${serial++}`, reply);
      return () => {
        response.setHeader("Content-Type", "application/json");
        response.setHeader("Content-Length", Buffer.byteLength(reply));
        response.end(reply);
      };
    });
  });
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  serveParent(`http://127.0.0.1:${port}`, {
    stop() {
      server.closeAllConnections();
      db.close();
      rmSync(folder, { recursive: true });
    },
  });
});
