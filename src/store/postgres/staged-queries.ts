import type { SessionId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import { detailsOf } from "../rows.ts";
import { tsVector, wordsOf } from "../search-words.ts";
import type { StagedId } from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";
import { listOf } from "./floor-commit.ts";

const STAGE = { name: "stage", text: "SELECT stage_messages($1, $2, $3, $4)" };
const DISCARD = {
  name: "discard_staged",
  text: "UPDATE sessions SET last_activity_at = 0 WHERE id = $1",
};
const COPY_BLOB = {
  name: "copy_blob",
  text: `
    INSERT INTO blobs AS b (session_id, hash, mime_type, created_at, bytes)
    SELECT $2, hash, mime_type, $4, bytes FROM blobs WHERE session_id = $1 AND hash = $3
    ON CONFLICT (session_id, hash) DO UPDATE SET created_at = greatest(b.created_at, excluded.created_at)
    RETURNING 1`,
};

/** Writes staged sessions: histories whose sessions do not exist yet. */
export const stagedQueries = (db: Database) => ({
  async stageMessages(stagedAs: StagedId, messages: readonly Message[], now: number): Promise<void> {
    const [first] = messages;
    if (!first) return;
    const rows = messages.map((message) => ({
      id: message.id,
      status: message.status,
      details: detailsOf(message),
      content: message.content,
      words: tsVector(wordsOf(message.content)),
      images: message.images?.map(({ hash }) => hash),
    }));
    await db.query(STAGE, [stagedAs, first.sessionId, now, listOf(rows)]);
  },

  async discardStaged(stagedAs: StagedId): Promise<void> {
    await db.query(DISCARD, [stagedAs]);
  },

  async copyBlob(from: SessionId, to: SessionId, hash: string, now: number): Promise<boolean> {
    return (await db.query(COPY_BLOB, [from, to, hash, now])).length > 0;
  },
});
