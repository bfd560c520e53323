import type { AgentEntry, Restriction } from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { textIn } from "../../protocol/locale.ts";

interface Holder {
  readonly agentId: AgentId;
  readonly priority: number;
  readonly interruptible: boolean;
  readonly preemptionThreshold?: number | undefined;
  readonly critical?: true | undefined;
}

/** What a refused challenger would need, for people; undefined if no change of its own would help. */
export function wouldNeed(
  reason: Reason,
  challengerId: AgentId,
  holder: Holder | undefined,
  restriction?: Pick<Restriction, "name" | "when">,
): string | undefined {
  if (restriction) return `${restriction.when} to be off, or ${challengerId} in ${restriction.name}'s allow`;
  if (!holder) return undefined;
  const rank = `priority > ${holder.priority}`;
  const threshold = `priority ≥ ${holder.agentId}'s preemption_threshold (${holder.preemptionThreshold ?? "none is set"})`;
  switch (reason) {
    case "lower_priority":
    case "equal_priority":
      if (holder.critical) return "to be critical";
      return holder.interruptible ? rank : `${rank} and ${threshold}`;
    case "not_interruptible":
      return threshold;
    case "stack_full":
      return "fewer paused sessions than max_paused";
    case "queue_full":
      return "fewer queued sessions than max_queued";
    default:
      return undefined;
  }
}

type Template = keyof AgentEntry["messages"];

/** What a sentence says of a decision. */
interface Spoken {
  readonly outcome: Decision["outcome"];
  readonly reason: Reason;
  readonly challengerId: AgentId;
  readonly holderId: AgentId | undefined;
  /** The holder makes room for the challenger, and is still audible beneath it. */
  readonly isHolderDucked: boolean;
  /** The language of the sentence, if the agent has it. */
  readonly locale: string | undefined;
}

/** Whose template is used, which one, and the sentence of an agent without it. */
type Sentence = readonly [speaker: "challenger" | "holder" | "none", template: Template, fallback: string];

/** The sentences of reasons that say everything themselves. */
const BY_REASON: { readonly [reason in Reason]?: Sentence } = {
  unknown_agent: ["none", "rejected", "{challenger} is not available any more."],
  agent_disabled: ["none", "rejected", "{challenger} is switched off."],
  restricted: ["none", "rejected", "{challenger} is not available at the moment."],
  queue_timeout: ["none", "rejected", "{challenger} has waited too long."],
  lease_expired: ["none", "rejected", "{challenger} does not answer any more."],
  stack_full: ["none", "rejected", "Too much is paused already; {challenger} has to wait."],
  queue_full: ["none", "rejected", "Too many are waiting already for {holder} to end."],
  beneath: ["challenger", "granted", "{challenger} starts beneath {holder}."],
  replaced: ["challenger", "granted", "{challenger} replaces {holder}."],
};

function sentenceOf({ outcome, reason, isHolderDucked }: Spoken): Sentence {
  const own = BY_REASON[reason];
  if (own) return own;
  if (isHolderDucked) return ["holder", "ducked", "{holder} goes on beneath {challenger}."];
  if (reason === "critical") return ["holder", "preempted", "{challenger} comes before {holder}."];
  if (outcome === "rejected") return ["holder", "rejected", "{holder} is running; {challenger} has to wait."];
  if (outcome === "queued") return ["holder", "queued", "{challenger} will start when {holder} is done."];
  if (reason === "preempted") return ["holder", "preempted", "{holder} is paused for {challenger}."];
  if (reason === "resumed") return ["challenger", "resumed", "{challenger} goes on."];
  if (reason === "already_holder") return ["challenger", "granted", "{challenger} is running already."];
  return ["challenger", "granted", "{challenger} starts."];
}

/** What a template may name. */
export const PLACEHOLDERS = ["challenger", "challenger.description", "holder", "holder.description"] as const;

/**
 * A decision as a sentence to speak, from the template of the speaking agent or a default. `{challenger}` and
 * `{holder}` are replaced by labels, `{challenger.description}` and `{holder.description}` by descriptions.
 */
export function saying(spoken: Spoken, agents: ReadonlyMap<string, AgentEntry>): string {
  const { challengerId, holderId } = spoken;
  const challenger = agents.get(challengerId);
  const holder = holderId === undefined ? undefined : agents.get(holderId);
  const [speaker, template, fallback] = sentenceOf(spoken);
  const own = (speaker === "none" ? undefined : { challenger, holder }[speaker])?.messages[template];
  const text = textIn(own ?? fallback, spoken.locale);
  const challengerLabel = challenger?.label ?? challengerId;
  const holderLabel = holder?.label ?? holderId ?? "";
  const words: Record<(typeof PLACEHOLDERS)[number], string> = {
    challenger: challengerLabel,
    "challenger.description": challenger?.description || challengerLabel,
    holder: holderLabel,
    "holder.description": holder?.description || holderLabel,
  };
  return text.replace(/\{([a-z.]+)\}/g, (whole, name: string) =>
    Object.hasOwn(words, name) ? words[name as keyof typeof words] : whole,
  );
}
