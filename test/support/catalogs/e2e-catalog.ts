import { EXAMPLE_AGENTS } from "./catalog.ts";

type File = Record<string, unknown>;

/** An agent with two modes that writes summaries with a model at this address. */
export const makeClerk = (baseUrl: string): File => ({
  name: "clerk",
  tools: ["clock"],
  modes: [{ name: "talk" }, { name: "work", tools: ["clock"] }],
  adapter: { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: baseUrl, summary: {} },
});

/** The replies of every agent of the end-to-end tests, by the first word of the message. */
const REPLIES: File[] = [
  { match: "^hello", say: ["Hello ", "there."], delay: "0ms", usage: { input: 3, output: 2 } },
  { match: "^nod", say: ["Yes."] },
  { match: "^silence" },
  /** Replies for almost a second, in small pieces. */
  { match: "^count", say: ["tick "], delay: "20ms", repeat: 40 },
  /** Writes one piece, and waits until it is paused, aborted or stopped. */
  { match: "^play", say: ["♪ "], delay: "1h", repeat: 1000 },
  /** The same, with words. */
  { match: "^sing", say: ["la la "], delay: "1h", repeat: 1000 },
  {
    match: "^ask",
    ask: { question: "Which one?", options: ["a", "b"] },
    say: ["You chose {answer}."],
    otherwise: "None.",
  },
  {
    match: "^pick",
    ask: { question: "Which ones?", options: ["a", "b"], multi_select: true },
    say: ["You picked {answer}."],
  },
  {
    match: "^delete",
    confirm: { tool: "delete_file", arguments: { path: "a.txt" } },
    say: ["Deleted."],
    otherwise: ["Kept it."],
  },
  { match: "^flaky", fail: { code: "provider_rate_limited", times: 1 }, say: ["Better now."] },
  { match: "^offline", fail: { code: "provider_unreachable", times: 1000 } },
  { match: "^refused", fail: { code: "provider_refused", times: 1000 } },
  { match: "^browse", delegate: { name: "weather", task: "hello" }, say: ["It says: {result}"] },
];

/** A scripted agent with the replies above. */
export function scripted(name: string, rest: File = {}, adapter: File = {}): File {
  return { name, ...rest, adapter: { kind: "scripted", replies: REPLIES, ...adapter } };
}

/**
 * The agents of the rules' examples (music 20, weather 30, planner 60, navigation 80 and phone 90, which are not
 * interruptible, …), and one for each behaviour of an agent.
 */
export const E2E_AGENTS: readonly File[] = [
  scripted("general", { priority: 40, description: "answers whatever is asked" }),
  ...EXAMPLE_AGENTS.map(({ name, ...rest }) => scripted(String(name), rest)),
  scripted("patient", { priority: 10, when_blocked: "queue" }),
  scripted("stacker", { priority: 40, when_busy: "enqueue" }),
  scripted("hasty", { priority: 40, when_busy: "interrupt" }),
  scripted("restless", { priority: 20 }, { yields: "abort" }),
  scripted("off", { enabled: false }),
];

/** The same agents, where music keeps its place beneath a call, which it loses among `E2E_AGENTS`. */
export const WITH_MUSIC_BENEATH: readonly File[] = E2E_AGENTS.map((agent) =>
  agent["name"] === "phone"
    ? { ...agent, beneath: { music: -14 } }
    : agent["name"] === "music"
      ? { ...agent, when_preempted: "duck" }
      : agent,
);
