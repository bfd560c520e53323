import type { LogEntry } from "../../src/protocol/event.ts";
import type { FloorChange } from "../../src/store/store.ts";

/** A short description of a message on the bus. */
export function describeMessage(topic: string, message: Uint8Array): string {
  const text = Buffer.from(message).toString("utf8", 0, 4_096);
  const where = topic.replace(/^sim1\./, "");
  const line = text.split("\n", 1)[0]!;
  const said = where.startsWith("floors.") || where.startsWith("reply.") ? ofMail(text) : line.slice(0, 160);
  return `${where} ${said}`;
}

function ofMail(text: string): string {
  const [, commandId] = /"commandId":"([^"]*)"/.exec(text) ?? [];
  const [, command] = /"command":(\{.*)\}\}$/.exec(text) ?? [];
  if (commandId !== undefined) return `asks ${commandId} ${command?.slice(0, 160)}`;
  return `answers ${/"outcome":(.{0,160})/.exec(text)?.[1]}`;
}

/** A short description of a commit. */
export function describeChange({
  floorId,
  expected,
  events,
  deleted,
  receipts,
  runRequestsAdded,
}: FloorChange): string {
  const logged = [...events, ...deleted.map(({ last }) => last)];
  const told = [
    ...logged.map(describeEntry),
    ...runRequestsAdded.map(({ id }) => `wants ${id}`),
    ...receipts.map(({ commandId }) => `for ${commandId}`),
  ];
  return `${floorId} ${expected + 1}: ${told.join(", ")}`;
}

function describeEntry({ floorSeq, type, sessionId, json }: LogEntry): string {
  const data = JSON.parse(json);
  const what =
    type === "session_transition"
      ? `${data.event} ${data.from}→${data.to}`
      : type === "arbitration"
        ? `${data.outcome} ${data.reason}`
        : type === "message"
          ? `message ${data.id} ${data.status}`
          : type;
  return `${floorSeq} ${sessionId ?? ""} ${what}`;
}
