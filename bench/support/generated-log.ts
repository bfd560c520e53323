import { MadeLog } from "../../test/support/documents/made-log.ts";

/** Sessions that are paused at the same time. */
const MAX_PAUSED = 8;
const usage = { prompt_tokens: 8, completion_tokens: 4, total_tokens: 12 };

/**
 * A generated floor's log in the format that the page saves. Each session is created, gets the floor, has turns, and is
 * paused and archived.
 */
export function generateLog(count: number, sessions: number): string {
  const log = new MadeLog();
  const perSession = Math.max(4, Math.floor(count / sessions));
  let holder: string | undefined;
  const paused: string[] = [];
  for (let serial = 0; log.length < count; serial += 1) {
    const id = `s${serial}`;
    const agentId = serial % 3 === 0 ? "phone" : "music";
    const priority = agentId === "phone" ? 90 : 20;
    const { at } = log;
    log.create(id, { title: `Session ${serial}`, agentId, priority });
    const challenger = { sessionId: id, agentId, priority, explained: [{ step: "agent", value: priority }] };
    log.add("arbitration", id, {
      outcome: "granted",
      reason: holder ? "preempted" : "floor_free",
      challenger,
      say: "Yes.",
    });
    if (holder !== undefined) log.move(holder, "active.idle", "paused", "preempt");
    log.move(id, "created", "active.idle", "activate");
    for (let turn = 0; turn < (perSession - 5) / 5; turn += 1) {
      const message = {
        id: `${id}m${turn}`,
        sessionId: id,
        role: "user",
        content: "Play something else, please.",
        status: "success",
      };
      log.add("message", id, { ...message, createdAt: at, streaming: false });
      log.move(id, "active.idle", "active.running", "turn");
      log.add("message", id, { ...message, id: `${id}a${turn}`, role: "assistant", createdAt: at, streaming: false });
      log.add("complete", id, { sessionId: id, runId: `${id}r${turn}`, usage, tokenCount: 12 });
      log.move(id, "active.running", "active.idle", "done");
    }
    if (holder !== undefined) paused.push(holder);
    if (paused.length > MAX_PAUSED) log.move(paused.shift()!, "paused", "archived", "archive");
    holder = id;
  }
  return log.toJson(count);
}
