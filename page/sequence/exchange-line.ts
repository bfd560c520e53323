import { type EventLine, lineOf } from "../log/event-line.ts";
import { useAgentName } from "../moment/here.tsx";
import { becauseOf } from "../parts/because.ts";
import { useWords } from "../words/words.tsx";
import type { Exchange, Party } from "./exchanges.ts";

/** The name of a party; without one, of the column that other sessions share. */
export type NameOf = (party: Party | undefined) => string;

/** The label of an arrow; a decision's includes its reason. */
export function useExchangeLine({ event, part, from }: Exchange): EventLine {
  const { say } = useWords();
  const agentName = useAgentName();
  if (event.type === "arbitration" && part === "asked") {
    const { priority, agentId } = event.data.challenger;
    const who = from.role === "client" ? `${agentName(agentId)}: ` : "";
    return { text: `${who}${say("sequence.asks", { p: priority })}` };
  }
  if (event.type === "session_transition") {
    const { event: name, to, activity, level, reason } = event.data;
    const state = activity ? `${to} (${activity.to})` : to;
    const loudness = level === undefined ? "" : ` ${level} dB`;
    const because = reason === undefined ? "" : ` · ${becauseOf(reason, say) ?? reason}`;
    return { name, text: `→ ${state}${loudness}${because}` };
  }
  return lineOf(event, { say, agentName });
}

/** How a message is coloured. */
export function toneOf({ event, part }: Exchange): "bad" | "good" | "waits" | undefined {
  if (event.type === "error") return "bad";
  if (event.type !== "arbitration" || part === "asked") return undefined;
  return event.data.outcome === "granted" ? "good" : event.data.outcome === "queued" ? "waits" : "bad";
}
