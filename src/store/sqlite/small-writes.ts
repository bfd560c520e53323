import { floorOfUser, type SessionId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import type { Blob, ConnectionRow, Forgotten, Jumps, PruneLimits, StagedId, StoredDefinitionChange } from "../store.ts";
import type { WriterThread } from "./writer/writer-thread.ts";

const FREE_PAGES =
  "Free pages of the database may still hold deleted data, because it could not be written anew: repeat it when the disk has room.";

/** Writes everything besides floor changes. */
export const smallWrites = (thread: WriterThread) => ({
  async saveConnection(row: ConnectionRow): Promise<"saved" | "conflict"> {
    return (await thread.add({ kind: "connection", row })) === "conflict" ? "conflict" : "saved";
  },

  async putBlob(sessionId: SessionId, blob: Blob): Promise<void> {
    await thread.add({ kind: "blob", sessionId, blob });
  },

  async stageMessages(stagedAs: StagedId, messages: readonly Message[], now: number): Promise<void> {
    const outcome = await thread.add({ kind: "stage", stagedAs, messages, now });
    if (outcome === "conflict") throw new Error(`the staged session ${stagedAs} already has one of these messages`);
  },

  async discardStaged(stagedAs: StagedId): Promise<void> {
    await thread.add({ kind: "discard", stagedAs });
  },

  async copyBlob(from: SessionId, to: SessionId, hash: string, now: number): Promise<boolean> {
    return (await thread.add({ kind: "copy", from, to, hash, now })) === "done";
  },

  async changeDefinition(change: StoredDefinitionChange): Promise<"saved" | "conflict"> {
    return (await thread.add({ kind: "definition", change })) === "conflict" ? "conflict" : "saved";
  },

  async saveJumps(jumps: Jumps): Promise<void> {
    await thread.add({ kind: "jumps", jumps });
  },

  async forgetUser(userId: string): Promise<"conflict" | Forgotten> {
    const outcome = await thread.add({ kind: "forget", userId, floorId: floorOfUser(userId) });
    if (outcome === "conflict") return "conflict";
    return { remains: outcome === "more" ? [FREE_PAGES] : [] };
  },

  async prune(limits: PruneLimits): Promise<boolean> {
    return (await thread.add({ kind: "prune", limits })) === "more";
  },
});
