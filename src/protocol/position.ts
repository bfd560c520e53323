/**
 * A reader's position in a log: the SSE `id`, which the client sends back in `Last-Event-ID`. It has only letters,
 * digits, `.`, `_` and `-` and is shorter than 128 bytes, so that it survives headers, query strings and proxies.
 */

import type { ConnectionId, Seq } from "./ids.ts";

/** The position of a connection's reader in the session of one slot. */
export interface SlotPosition {
  slot: number;
  seq: Seq;
}

export interface ConnectionPosition {
  epoch: string;
  connectionId: ConnectionId;
  /** Live slots only, in the order of their numbers (rule C19). */
  slots: readonly SlotPosition[];
  /**
   * Slots below this number had been opened. A slot below it that `slots` does not list has been delivered to its end.
   * Undefined in positions from older releases: then every ended slot counts as delivered.
   */
  known?: number | undefined;
}

const MAX_POSITION_LENGTH = 127;
const LOG_POSITION = /^([a-z0-9]{1,6})\.(\d{1,15})(?:\.([a-z0-9]{1,9}))?$/;
const CONNECTION_POSITION =
  /^([a-z0-9]{1,6})\.([A-Za-z0-9_-]{1,12})\.((?:[a-z0-9]+_[a-z0-9]+(?:-[a-z0-9]+_[a-z0-9]+)*)?)(?:\.([a-z0-9]{1,6}))?$/;

/**
 * Format a position in a session's or a floor's log.
 * @param incarnation which session of this id the log belongs to, `incarnationOf` it. Absent: the log of a floor,
 *   which has one forever
 */
export function logPosition(epoch: string, seq: number, incarnation?: string): string {
  return incarnation === undefined ? `${epoch}.${seq}` : `${epoch}.${seq}.${incarnation}`;
}

/**
 * Tells a session from a later one with the same id, which may be created a day after the first was deleted.
 * @param createdAt of the session, in ms since 1970
 */
export const incarnationOf = (createdAt: number): string => createdAt.toString(36);

/** The incarnation of a session that is deleted: that of no session. */
export const DELETED_INCARNATION = "0";

/** Parse a log position; undefined if malformed. The caller must compare the epoch, and the incarnation if present. */
export function parseLogPosition(
  text: string,
): { epoch: string; seq: number; incarnation?: string | undefined } | undefined {
  const match = LOG_POSITION.exec(text);
  return match ? { epoch: match[1]!, seq: Number(match[2]), incarnation: match[3] } : undefined;
}

/** The `seq` of a position in a session's log, or the `floorSeq` of one in a floor's; undefined for any other text. */
export const seqOf = (position: string | undefined): number | undefined => parseLogPosition(position ?? "")?.seq;

/** Format a connection's position. */
export function connectionPosition({ epoch, connectionId, slots, known }: ConnectionPosition): string {
  let text = `${epoch}.${connectionId}.`;
  for (let index = 0; index < slots.length; index++) {
    const { slot, seq } = slots[index]!;
    text += `${index === 0 ? "" : "-"}${slot.toString(36)}_${seq.toString(36)}`;
  }
  return known === undefined ? text : `${text}.${known.toString(36)}`;
}

/** Parse a connection's position; undefined if malformed. The caller must compare the epoch. */
export function parseConnectionPosition(text: string): ConnectionPosition | undefined {
  if (text.length > MAX_POSITION_LENGTH) return undefined;
  const match = CONNECTION_POSITION.exec(text);
  if (!match) return undefined;
  const slots: SlotPosition[] = [];
  const named = new Set<number>();
  for (const entry of match[3] === "" ? [] : match[3]!.split("-")) {
    const [slot, seq] = entry.split("_").map((digits) => Number.parseInt(digits, 36));
    if (!Number.isSafeInteger(slot) || !Number.isSafeInteger(seq) || named.has(slot!)) return undefined;
    named.add(slot!);
    slots.push({ slot: slot!, seq: seq! });
  }
  const known = match[4] === undefined ? undefined : Number.parseInt(match[4], 36);
  return { epoch: match[1]!, connectionId: match[2] as ConnectionId, slots, ...(known !== undefined && { known }) };
}
