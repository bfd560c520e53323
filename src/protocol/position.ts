import type { ConnectionId, Seq } from "./ids.ts";

/**
 * Where a reader stands; the SSE `id`, and what `Last-Event-ID` brings back. Letters, digits, `.`, `_`, `-` only and
 * under 128 bytes: it has to survive headers, query strings and proxies.
 */

/** How far a connection's reader has come in the session of one of its slots. */
export interface SlotPlace {
  slot: number;
  seq: Seq;
}

export type ConnectionPosition = { epoch: string; connectionId: ConnectionId; slots: SlotPlace[] };

const MAX_LENGTH = 127;
const LOG_POSITION = /^([a-z0-9]{1,6})\.(\d{1,15})$/;
const CONNECTION_POSITION =
  /^([a-z0-9]{1,6})\.([A-Za-z0-9_-]{1,12})\.((?:[a-z0-9]+_[a-z0-9]+(?:-[a-z0-9]+_[a-z0-9]+)*)?)$/;

/** The position in a session's or a floor's log. */
export function logPosition(epoch: string, seq: number): string {
  return `${epoch}.${seq}`;
}

/** Undefined for what is no position at all; the epoch is for the caller to compare. */
export function parseLogPosition(text: string): { epoch: string; seq: number } | undefined {
  const match = LOG_POSITION.exec(text);
  return match ? { epoch: match[1]!, seq: Number(match[2]) } : undefined;
}

/** `slots` are those of live bindings only, in the order of their slots (rule C19). */
export function connectionPosition(epoch: string, connectionId: string, slots: readonly SlotPlace[]): string {
  let text = `${epoch}.${connectionId}.`;
  for (let index = 0; index < slots.length; index++) {
    const { slot, seq } = slots[index]!;
    text += `${index === 0 ? "" : "-"}${slot.toString(36)}_${seq.toString(36)}`;
  }
  return text;
}

export function parseConnectionPosition(text: string): ConnectionPosition | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const match = CONNECTION_POSITION.exec(text);
  if (!match) return undefined;
  const slots: SlotPlace[] = [];
  for (const place of match[3] === "" ? [] : match[3]!.split("-")) {
    const [slot, seq] = place.split("_").map((digits) => Number.parseInt(digits, 36));
    if (!Number.isSafeInteger(slot) || !Number.isSafeInteger(seq)) return undefined;
    if (slots.some((known) => known.slot === slot)) return undefined;
    slots.push({ slot: slot!, seq: seq! });
  }
  return { epoch: match[1]!, connectionId: match[2] as ConnectionId, slots };
}
