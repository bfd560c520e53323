import { z } from "zod";
import { cleanText } from "./text.ts";

/** Ids that a client may choose, and those the server derives: they go into URLs, SSE frames and file names unescaped. */
const ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Printable ASCII without a space: what may stand in an `Idempotency-Key` header. */
const VISIBLE = /^[\x21-\x7e]{1,128}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const NO_CONTROL = /^[^\u0000-\u001f\u007f-\u009f]{1,128}$/;

export const SessionId = z.string().regex(ID, "1 to 64 of A-Z a-z 0-9 _ -").brand<"SessionId">();
export type SessionId = z.infer<typeof SessionId>;

export const MessageId = z.string().regex(ID, "1 to 64 of A-Z a-z 0-9 _ -").brand<"MessageId">();
export type MessageId = z.infer<typeof MessageId>;

export const RunId = z.string().regex(ID).brand<"RunId">();
export type RunId = z.infer<typeof RunId>;

/** An interaction an agent waits for: a confirmation or a question. */
export const RequestId = z.string().regex(ID).brand<"RequestId">();
export type RequestId = z.infer<typeof RequestId>;

/** A run or a timer that is wanted; new each time it is wanted (rule C7). No `:` in it. */
export const EffectId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/)
  .brand<"EffectId">();
export type EffectId = z.infer<typeof EffectId>;

export const CommandId = z.string().regex(VISIBLE, "1 to 128 visible characters").brand<"CommandId">();
export type CommandId = z.infer<typeof CommandId>;

export const ConnectionId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,12}$/)
  .brand<"ConnectionId">();
export type ConnectionId = z.infer<typeof ConnectionId>;

/** The catalogue's `name` of an agent. Also a key of records: `__proto__` and friends are no names. */
export const AgentId = z
  .string()
  .regex(/^[a-z0-9_-]{1,64}$/, "1 to 64 of a-z 0-9 _ -")
  .refine((name) => !(name in {}), "reserved")
  .brand<"AgentId">();
export type AgentId = z.infer<typeof AgentId>;

/** A person or a place as the application names it: `userId`, `zone`, `workspaceId`. */
export const Name = z.string().regex(NO_CONTROL, "1 to 128 characters without control characters").overwrite(cleanText);

const FLOOR = /^(?:u:[^/:]{1,1200}(?:\/[^/:]{1,1200})?|s:[A-Za-z0-9_-]{1,64})$/;

/** `u:<user>`, `u:<user>/<zone>` (both percent-encoded by themselves) or `s:<session>`. */
export const FloorId = z.string().regex(FLOOR, "u:<user>, u:<user>/<zone> or s:<session>").brand<"FloorId">();
export type FloorId = z.infer<typeof FloorId>;

/** A place in a session's log, dense from 1. 0 is before the first event. */
export type Seq = number;
/** A place in a floor's log, dense from 1. */
export type FloorSeq = number;

/** Which floor a session competes for. A session without a user has one of its own. */
export function floorOf(sessionId: SessionId, userId: string | undefined, zone: string | undefined): FloorId {
  if (userId === undefined) return `s:${sessionId}` as FloorId;
  const user = encodeURIComponent(userId.toWellFormed());
  return (zone === undefined ? `u:${user}` : `u:${user}/${encodeURIComponent(zone.toWellFormed())}`) as FloorId;
}

/** The user whose floor it is, or undefined for a floor that belongs to one session. */
export function userOf(floorId: FloorId): string | undefined {
  if (!floorId.startsWith("u:")) return undefined;
  const user = floorId.slice(2).split("/", 1)[0]!;
  try {
    return decodeURIComponent(user);
  } catch {
    return undefined;
  }
}

/** One spelling per floor: `u:a%62` and `u:ab` name the same user. Undefined when it is no floor id. */
export function parseFloorId(text: string): FloorId | undefined {
  if (!FLOOR.test(text)) return undefined;
  if (text.startsWith("s:")) return text as FloorId;
  try {
    const [user, zone] = text.slice(2).split("/").map(decodeURIComponent);
    if (!NO_CONTROL.test(user!) || (zone !== undefined && !NO_CONTROL.test(zone))) return undefined;
    return floorOf("" as SessionId, user, zone);
  } catch {
    return undefined;
  }
}
