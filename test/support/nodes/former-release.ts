import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import type { StreamEvent } from "../clients/sse-reader.ts";

/** The recording of the former release by `test/fixtures/former-release/record.ts`. */
const FOLDER = join(import.meta.dirname, "../../fixtures/former-release");

interface RecordedAnswer {
  status: number;
  body: Record<string, unknown>;
}

/** The answers of the former release before it was killed. */
export interface Recording {
  /** The time at which it was killed, in ms since 1970. */
  recordedAt: number;
  /** Writes with a key, in order. */
  keyed: { method: string; path: string; body: unknown; key: string; answer: RecordedAnswer }[];
  /** The answer to each `GET`, by path. */
  reads: Record<string, RecordedAnswer>;
  /** The logged events of each stream, by path, read from the beginning. */
  streams: Record<string, StreamEvent[]>;
}

export interface RecordedAgents {
  default_agent: string;
  agents: Record<string, unknown>[];
}

export async function readAgents(): Promise<RecordedAgents> {
  return JSON.parse(await readFile(join(FOLDER, "agents.json"), "utf8"));
}

export async function readRecording(name: "sqlite" | "postgres"): Promise<Recording> {
  return JSON.parse((await unpack(`${name}.json.gz`)).toString());
}

/** Effects and receipts have due times and ages: move them to now, as if the release had just been killed. */
const catchUp = ({ recordedAt }: Recording): string[] => {
  const elapsedMs = Date.now() - recordedAt;
  return [`UPDATE effects SET due_at = due_at + ${elapsedMs}`, `UPDATE receipts SET at = at + ${elapsedMs}`];
};

/** Copy the SQLite file of the former release to `file`. */
export async function restoreSqlite(file: string, recording: Recording): Promise<void> {
  await writeFile(file, await unpack("interlock.db.gz"));
  const database = new DatabaseSync(file);
  for (const statement of catchUp(recording)) database.exec(statement);
  database.close();
}

/** Load the dump of the former release into the empty database at `url`. */
export async function restorePostgres(url: string, recording: Recording): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query((await unpack("interlock.sql.gz")).toString());
    await client.query("SET search_path = interlock");
    for (const statement of catchUp(recording)) await client.query(statement);
  } finally {
    await client.end();
  }
}

const unpack = async (name: string): Promise<Buffer> => gunzipSync(await readFile(join(FOLDER, name)));
