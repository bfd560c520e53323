import type { AgentEntry, Restriction } from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { type LocalText, textIn } from "../../protocol/locale.ts";

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
  challenger: { readonly agentId: AgentId; readonly locale?: string | undefined },
  holder: Holder | undefined,
  restriction?: Pick<Restriction, "name" | "when">,
): string | undefined {
  const inWords = (en: string, zh: string) => textIn({ en, zh }, challenger.locale);
  if (restriction) {
    const { name, when } = restriction;
    const { agentId } = challenger;
    if (when === undefined) {
      return inWords(
        `the hours of ${name} to be over, or ${agentId} in its allow`,
        `${name} 的时段结束，或它的 allow 里有 ${agentId}`,
      );
    }
    return inWords(
      `${when} to be off, or ${agentId} in ${name}'s allow`,
      `${when} 关闭，或 ${name} 的 allow 里有 ${agentId}`,
    );
  }
  if (!holder) return undefined;
  const rank = `priority > ${holder.priority}`;
  const { agentId, preemptionThreshold: set } = holder;
  const threshold = inWords(
    `priority ≥ ${agentId}'s preemption_threshold (${set ?? "none is set"})`,
    `priority ≥ ${agentId} 的 preemption_threshold（${set ?? "未设置"}）`,
  );
  switch (reason) {
    case "lower_priority":
    case "equal_priority":
      if (holder.critical) return inWords("to be critical", "自身为 critical");
      return holder.interruptible ? rank : inWords(`${rank} and ${threshold}`, `${rank} 且 ${threshold}`);
    case "not_interruptible":
      return threshold;
    case "stack_full":
      return inWords("fewer paused sessions than max_paused", "暂停的会话少于 max_paused");
    case "queue_full":
      return inWords("fewer queued sessions than max_queued", "排队的会话少于 max_queued");
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
type Sentence = readonly [speaker: "challenger" | "holder" | "none", template: Template, fallback: LocalText];

/** The sentences of reasons that say everything themselves. Default sentences are English in other languages. */
const BY_REASON: { readonly [reason in Reason]?: Sentence } = {
  unknown_agent: ["none", "rejected", { en: "{challenger} is not available any more.", zh: "{challenger}已不可用。" }],
  agent_disabled: ["none", "rejected", { en: "{challenger} is switched off.", zh: "{challenger}已停用。" }],
  restricted: [
    "none",
    "rejected",
    { en: "{challenger} is not available at the moment.", zh: "{challenger}暂时不可用。" },
  ],
  queue_timeout: ["none", "rejected", { en: "{challenger} has waited too long.", zh: "{challenger}等待太久。" }],
  lease_expired: ["none", "rejected", { en: "{challenger} does not answer any more.", zh: "{challenger}不再有回应。" }],
  stack_full: [
    "none",
    "rejected",
    { en: "Too much is paused already; {challenger} has to wait.", zh: "暂停的已经太多；{challenger}需要等待。" },
  ],
  queue_full: [
    "none",
    "rejected",
    { en: "Too many are waiting already for {holder} to end.", zh: "等待{holder}结束的已经太多。" },
  ],
  beneath: [
    "challenger",
    "granted",
    { en: "{challenger} starts beneath {holder}.", zh: "{challenger}在{holder}之下开始。" },
  ],
  replaced: ["challenger", "granted", { en: "{challenger} replaces {holder}.", zh: "{challenger}取代{holder}。" }],
};

function sentenceOf({ outcome, reason, isHolderDucked }: Spoken): Sentence {
  const own = BY_REASON[reason];
  if (own) return own;
  if (isHolderDucked)
    return [
      "holder",
      "ducked",
      { en: "{holder} goes on beneath {challenger}.", zh: "{holder}在{challenger}之下继续。" },
    ];
  if (reason === "critical")
    return ["holder", "preempted", { en: "{challenger} comes before {holder}.", zh: "{challenger}优先于{holder}。" }];
  if (outcome === "rejected")
    return [
      "holder",
      "rejected",
      { en: "{holder} is running; {challenger} has to wait.", zh: "{holder}进行中；{challenger}需要等待。" },
    ];
  if (outcome === "queued")
    return [
      "holder",
      "queued",
      { en: "{challenger} will start when {holder} is done.", zh: "{holder}结束后，{challenger}开始。" },
    ];
  if (reason === "preempted")
    return [
      "holder",
      "preempted",
      { en: "{holder} is paused for {challenger}.", zh: "{holder}暂停，让位给{challenger}。" },
    ];
  if (reason === "resumed") return ["challenger", "resumed", { en: "{challenger} goes on.", zh: "{challenger}继续。" }];
  if (reason === "already_holder")
    return ["challenger", "granted", { en: "{challenger} is running already.", zh: "{challenger}已在进行。" }];
  return ["challenger", "granted", { en: "{challenger} starts.", zh: "{challenger}开始。" }];
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
