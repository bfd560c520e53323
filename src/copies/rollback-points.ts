import { z } from "zod";
import type { VisibleSessions } from "../gateway/access/visible-sessions.ts";
import { AppError } from "../protocol/errors.ts";
import type { MessageId, SessionId } from "../protocol/ids.ts";
import { headlineOf } from "../protocol/message.ts";
import { finishedMessages } from "./copied-history.ts";

/** The maximum number of points in a list: those of the newest turns. */
const MAX_POINTS = 1_000;

/** A message of the user that a session can be rolled back to. A session has no files, so no point has any. */
export const RollbackPoint = z.object({
  messageIndex: z.int().meta({ description: "its number among the session's finished messages, from 0" }),
  role: z.literal("user"),
  timestamp: z.number().meta({ description: "ms since 1970" }),
  summary: z.string().meta({ description: "the beginning of its first line" }),
  hasSnapshot: z.literal(false),
  filesToRollbackCount: z.literal(0),
});
type RollbackPoint = z.infer<typeof RollbackPoint>;

/** The points of a session, oldest first. @throws AppError `session_not_found` */
export async function listPoints(sessions: VisibleSessions, id: SessionId): Promise<RollbackPoint[]> {
  const points: RollbackPoint[] = [];
  let messageIndex = 0;
  for await (const { role, content, createdAt } of finishedMessages(sessions, id)) {
    if (role === "user") {
      const about = { timestamp: createdAt, summary: headlineOf(content) };
      points.push({ messageIndex, role, ...about, hasSnapshot: false, filesToRollbackCount: 0 });
      if (points.length > MAX_POINTS) points.shift();
    }
    messageIndex += 1;
  }
  return points;
}

/** The message of a point. @throws AppError `session_not_found`; `illegal_command` if no point has the index */
export async function findPoint(sessions: VisibleSessions, id: SessionId, messageIndex: number): Promise<MessageId> {
  let index = 0;
  for await (const message of finishedMessages(sessions, id)) {
    if (index === messageIndex && message.role === "user") return message.id;
    if (index === messageIndex) break;
    index += 1;
  }
  throw new AppError(
    "illegal_command",
    `No rollback point has the index ${messageIndex}: it is not a message of the user.`,
  );
}
