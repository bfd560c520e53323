import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** A session of a thousand turns: bytes on disk per turn, and the latency of late turns compared with early ones. */
const TURNS = 1_000;
const QUESTION = "What would you do if the road ahead were closed, and how long would it take? ".repeat(4);
const ANSWER_BYTES = 4;

export async function benchStorage(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
  const file = join(folder, "interlock.db");
  const child = await Child.start("interlock.ts", [file]);
  const connection = await Connection.open(child.url);
  const { session } = await connection.post<{ session: { id: string } }>("/session/create", { activate: true });
  const ms: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const begun = performance.now();
    await connection.post("/message", { type: "chat", sessionId: session.id, content: `${turn} ${QUESTION}` });
    ms.push(performance.now() - begun);
    await untilIdle(connection, session.id);
  }
  connection.close();
  await child.stop();
  const bytes = statSync(file).size;
  rmSync(folder, { recursive: true });
  const messageBytes = Buffer.byteLength(QUESTION) + 5 + ANSWER_BYTES;
  return [
    {
      what: "bytes per turn of 1,000, compared with 4 KiB + 3 × its messages",
      ours: bytes / TURNS,
      reference: 4_096 + 3 * messageBytes,
      unit: "B",
      atMost: 1,
    },
    {
      what: "a turn's latency, last hundred compared with the second",
      ours: median(ms.slice(-100)),
      reference: median(ms.slice(100, 200)),
      unit: "ms",
      atMost: 1.25,
    },
  ];
}

async function untilIdle(connection: Connection, id: string): Promise<void> {
  for (;;) {
    const { body } = await connection.request("GET", `/session/${id}`);
    if (body.includes('"activity":"idle"')) return;
  }
}
