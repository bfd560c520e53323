import { z } from "zod";

/** Ids chosen by clients or derived by the server. URLs, SSE frames and file names contain them unescaped. */
const ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Printable ASCII without spaces: the values an `Idempotency-Key` header may have. */
const VISIBLE = /^[\x21-\x7e]{1,128}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must refuse control characters
const NO_CONTROL = /^[^\u0000-\u001f\u007f-\u009f]{1,128}$/;

/** The properties that every object has. */
const RESERVED: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** A session's id. It is a key of objects, so `__proto__`, `constructor` and the like are refused. */
export const SessionId = z
  .string()
  .regex(ID, "1 to 64 of A-Z a-z 0-9 _ -")
  .refine((id) => !RESERVED.has(id), "reserved")
  .brand<"SessionId">();
export type SessionId = z.infer<typeof SessionId>;

export const MessageId = z.string().regex(ID, "1 to 64 of A-Z a-z 0-9 _ -").brand<"MessageId">();
export type MessageId = z.infer<typeof MessageId>;

export const RunId = z.string().regex(ID).brand<"RunId">();
export type RunId = z.infer<typeof RunId>;

/** The id of an interaction that an agent waits for: a confirmation or a question. */
export const RequestId = z.string().regex(ID).brand<"RequestId">();
export type RequestId = z.infer<typeof RequestId>;

/** The id of a run request; each has a new one (rule C7). Contains no `:`. */
export const RunRequestId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/)
  .brand<"RunRequestId">();
export type RunRequestId = z.infer<typeof RunRequestId>;

export const CommandId = z.string().regex(VISIBLE, "1 to 128 visible characters").brand<"CommandId">();
export type CommandId = z.infer<typeof CommandId>;

export const ConnectionId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,12}$/)
  .brand<"ConnectionId">();
export type ConnectionId = z.infer<typeof ConnectionId>;

/** A name that a catalogue gives: to an agent, a mode, a restriction or a flag. */
export const SHORT_NAME = /^[a-z0-9_-]{1,64}$/;
export const SHORT_NAME_FORM = "1 to 64 of a-z 0-9 _ -";

/** The catalogue's `name` of an agent. It is an object key, so `__proto__` and the like are refused. */
export const AgentId = z
  .string()
  .regex(SHORT_NAME, SHORT_NAME_FORM)
  .refine((name) => !RESERVED.has(name), "reserved")
  .brand<"AgentId">();
export type AgentId = z.infer<typeof AgentId>;

/**
 * The application's name for a person or a place: `userId`, `zone`, `workspaceId`. Half a surrogate pair is refused and
 * not replaced, because two users with other halves would share a floor.
 */
export const Name = z
  .string()
  .regex(NO_CONTROL, "1 to 128 characters without control characters")
  .refine((name) => name.isWellFormed(), "must not contain half a surrogate pair");

/** The zone that stands for all open floors of a user. No floor has this name. */
export const EVERY_ZONE = "*";

const FLOOR = /^(?:u:[^/:]{1,1200}(?:\/[^/:]{1,1200})?|s:[A-Za-z0-9_-]{1,64})$/;

/** The forms of a floor's id, for messages. */
export const FLOOR_FORMS = "u:<user>, u:<user>/<zone> or s:<session>";
/** `u:<user>`, `u:<user>/<zone>` (user and zone percent-encoded separately) or `s:<session>`. */
export const FloorId = z.string().regex(FLOOR, FLOOR_FORMS).brand<"FloorId">();
export type FloorId = z.infer<typeof FloorId>;

/** A sequence number in a session's log, from 1 without gaps. 0 is the position before the first event. */
export type Seq = number;
/** The `seq` of a session's newest event that the caller has seen: a command acts only if none has come since. */
export const IfSeq = z.int().nonnegative();
/** A sequence number in a floor's log, from 1 without gaps. */
export type FloorSeq = number;

/** The floor that a session competes for. A session without a user has its own floor. */
export function floorOf(sessionId: SessionId, userId: string | undefined, zone: string | undefined): FloorId {
  return userId === undefined ? (`s:${sessionId}` as FloorId) : floorOfUser(userId, zone);
}

/** A user's floor. The ids of those with a zone begin with the id of the one without, and `/`. */
export function floorOfUser(userId: string, zone?: string): FloorId {
  const user = encodeURIComponent(userId.toWellFormed());
  return (zone === undefined ? `u:${user}` : `u:${user}/${encodeURIComponent(zone.toWellFormed())}`) as FloorId;
}

/** The user of a floor; undefined for the floor of a single session. */
export function userOf(floorId: FloorId): string | undefined {
  if (!floorId.startsWith("u:")) return undefined;
  const user = floorId.slice(2).split("/", 1)[0]!;
  try {
    return decodeURIComponent(user);
  } catch {
    return undefined;
  }
}

/** The zone of a user's floor; undefined for the floor without one. */
export function zoneOf(floorId: FloorId): string | undefined {
  const [, zone] = floorId.split("/");
  return zone === undefined ? undefined : decodeURIComponent(zone);
}

/** Parse and normalise a floor id: `u:a%62` and `u:ab` name the same user. Undefined if malformed. */
export function parseFloorId(text: string): FloorId | undefined {
  if (!FLOOR.test(text)) return undefined;
  if (text.startsWith("s:")) return text as FloorId;
  try {
    const [user, zone] = text.slice(2).split("/").map(decodeURIComponent);
    if (!NO_CONTROL.test(user!) || (zone !== undefined && !NO_CONTROL.test(zone))) return undefined;
    return floorOfUser(user!, zone);
  } catch {
    return undefined;
  }
}
