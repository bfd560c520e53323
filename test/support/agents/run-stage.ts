import { createHash } from "node:crypto";
import { EventEmitter, getEventListeners, once } from "node:events";
import type { Agent, NewInteraction, Part, RunControl, Turn } from "../../../src/agents/agent.ts";
import type { MessageId, RequestId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Answer } from "../../../src/protocol/interaction.ts";
import type { ImageRef, Message } from "../../../src/protocol/message.ts";
import { raceAborted, unlessAborted } from "../../../src/shared/waiting.ts";

type WithoutId<T> = T extends unknown ? Omit<T, "requestId"> : never;
type AnswerWithoutId = WithoutId<Answer>;

/** Runs one run of an agent without a worker. The test controls the clock, the user's answers and the stored images. */
export type RunStage = ReturnType<typeof createRunStage>;

/** `time`: `jumps` to the end of each wait (default), or `stands` until the test moves it. */
export function createRunStage({ time = "jumps" }: { time?: "jumps" | "stands" } = {}) {
  const abort = new AbortController();
  const { signal } = abort;
  const sleeps: number[] = [];
  const asked: NewInteraction[] = [];
  const withdrawn: NewInteraction[] = [];
  const answers: AnswerWithoutId[] = [];
  const images = new Map<string, Uint8Array>();
  const heard = new EventEmitter();
  const sleepers = new Set<{ dueAt: number; wake: () => void }>();
  let now = 0;

  /** Move the clock, and fire what is due. */
  function advance(ms: number): void {
    now += ms;
    for (const sleeper of sleepers) {
      if (sleeper.dueAt > now) continue;
      sleepers.delete(sleeper);
      sleeper.wake();
    }
  }

  let held: PromiseWithResolvers<void> | undefined;
  const control: RunControl = {
    signal,
    async untilMayAct() {
      heard.emit("gate");
      while (held && !signal.aborted) await held.promise;
      signal.throwIfAborted();
    },
    sleep: (delayMs) =>
      unlessAborted<void>(signal, (wake) => {
        const sleeper = { dueAt: now + delayMs, wake };
        sleeps.push(delayMs);
        sleepers.add(sleeper);
        heard.emit("sleep");
        if (time === "jumps") advance(delayMs);
        return () => sleepers.delete(sleeper);
      }),
    after: (delayMs, callback) => {
      const sleeper = { dueAt: now + delayMs, wake: callback };
      sleepers.add(sleeper);
      heard.emit("timer");
      return { cancel: () => void sleepers.delete(sleeper) };
    },
    askUser: (interaction, withdrawal) =>
      raceAborted(withdrawal, () =>
        unlessAborted<Answer>(signal, (resolve) => {
          asked.push(interaction);
          withdrawal?.addEventListener("abort", () => withdrawn.push(interaction), { once: true });
          heard.emit("question");
          const answer = answers.shift();
          if (answer) resolve({ ...answer, requestId: `request_${asked.length}` as RequestId });
          return undefined;
        }),
      ),
    loadImage: async ({ hash }) => {
      const bytes = images.get(hash);
      if (!bytes) throw new Error(`no image ${hash} was stored`);
      return bytes;
    },
  };

  return {
    control,
    /** Every requested wait, in ms; without timers. */
    sleeps,
    /** Every question and confirmation for the user. */
    asked,
    /** Those that the agent withdrew. */
    withdrawn,
    /** The user's next answers, one per question. A question without an answer waits until the run is aborted. */
    willAnswer: (...more: AnswerWithoutId[]) => void answers.push(...more),
    storeImage(bytes: Uint8Array, mimeType: string): ImageRef {
      const hash = createHash("sha256").update(bytes).digest("hex");
      images.set(hash, bytes);
      return { hash, mimeType, bytes: bytes.length };
    },
    advance,
    /** Resolves at the next requested wait or question. */
    next: (what: "sleep" | "question" | "timer" | "gate"): Promise<unknown> => once(heard, what),
    /** Pause the run: actions that cannot be undone wait until it is resumed. */
    hold() {
      held ??= Promise.withResolvers();
    },
    goOn() {
      held?.resolve();
      held = undefined;
    },
    abort() {
      abort.abort(new Error("aborted by the test"));
      held?.resolve();
    },
    /** What the run has not released: waits, timers, and listeners on its signal. */
    leftovers: () => ({ sleepers: sleepers.size, listeners: getEventListeners(signal, "abort").length }),
  };
}

const SESSION = "session_1" as SessionId;
let messageCount = 0;

export function messageOf(role: Message["role"], content: string, rest: Partial<Message> = {}): Message {
  messageCount += 1;
  const id = `message_${messageCount}` as MessageId;
  return { id, sessionId: SESSION, role, content, status: "success", createdAt: messageCount, ...rest };
}

/** A user's message for an agent to answer, in the first attempt of a run. */
export function turnOf(content: string, rest: Partial<Turn> = {}): Turn {
  return {
    runId: "run_1" as RunId,
    attempt: 1,
    sessionId: SESSION,
    input: messageOf("user", content),
    history: [],
    approvedTools: [],
    ...rest,
  };
}

/** All parts that the agent yields for a turn. */
export async function play(agent: Agent, turn: Turn, stage: RunStage = createRunStage()): Promise<Part[]> {
  return await Array.fromAsync(agent.run(turn, stage.control));
}

/** The failure that ends a run, and the parts before it. */
export async function playToFailure(agent: Agent, turn: Turn, stage: RunStage = createRunStage()) {
  const parts: Part[] = [];
  try {
    for await (const part of agent.run(turn, stage.control)) parts.push(part);
  } catch (failure) {
    return { parts, failure: failure as unknown };
  }
  throw new Error("the run did not fail");
}

/** Starts a turn, and pulls its parts up to the first one of these types. `rest`: those that follow, to the end. */
export async function playUntil(agent: Agent, turn: Turn, stage: RunStage, ...types: Part["type"][]) {
  const parts = agent.run(turn, stage.control)[Symbol.asyncIterator]();
  for (;;) {
    const { value: part, done } = await parts.next();
    if (done) throw new Error(`the run ended without a part of type ${types.join()}`);
    const rest = () => Array.fromAsync({ [Symbol.asyncIterator]: () => parts });
    if (types.includes(part.type)) return { part: part as Part, parts, rest };
  }
}

/** The text of the session's own agent. */
export function textOf(parts: readonly Part[]): string {
  return parts.map((part) => (part.type === "text" && !part.agent ? part.text : "")).join("");
}

type PartOf<T, P = Part> = P extends { type: infer Types } ? (T extends Types ? P : never) : never;

/** The parts of one type. */
export const ofType = <T extends Part["type"]>(parts: readonly Part[], type: T) =>
  parts.filter((part) => part.type === type) as PartOf<T>[];
