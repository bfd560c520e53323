import type { Agent, Part, RunControl, Turn } from "../../../src/agents/agent.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, RunId } from "../../../src/protocol/ids.ts";
import { Chance } from "../../support/runner/chance.ts";

/** The script of a run: the same for each attempt, so that the text of every message is known. */
export interface Script {
  /** The pieces of each of its messages. */
  messages: number[];
  /** The action between one message and the next. */
  between: "question" | "tool";
  delayMs: number;
  ending: "done" | "failed";
}

/** A run's script is derived from its id. */
export function scriptOf(runId: RunId): Script {
  let seed = 7;
  for (let index = 0; index < runId.length; index++) seed = (Math.imul(seed, 31) + runId.charCodeAt(index)) | 0;
  const chance = new Chance(seed);
  return {
    messages: Array.from({ length: 1 + chance.below(2) }, () => 1 + chance.below(6)),
    between: chance.percent(50) ? "question" : "tool",
    delayMs: chance.pick([1, 60, 400, 900]),
    ending: chance.percent(85) ? "done" : "failed",
  };
}

const pieceOf = (attempt: number, message: number, piece: number) => `${attempt}:${message}.${piece} `;

/** The whole text of a message, by its id; undefined when no script has such a message. */
export function textOf(messageId: string): string | undefined {
  const match = /^(.+)-(\d+)-(\d+)$/.exec(messageId);
  if (!match) return undefined;
  const [, runId, attempt, index] = match;
  const count = scriptOf(runId as RunId).messages[Number(index)];
  if (count === undefined) return undefined;
  return Array.from({ length: count }, (_, piece) => pieceOf(Number(attempt), Number(index), piece)).join("");
}

/** An agent that plays the script of each run. `onTurn` is called before each turn. */
export function createPlayer(
  id: AgentId,
  { yields, restartable }: Pick<Agent, "yields" | "restartable">,
  onTurn: (turn: Turn) => void = () => {},
): Agent {
  return {
    id,
    yields,
    restartable,
    async *run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
      onTurn(turn);
      const { runId, attempt } = turn;
      const { messages, between, delayMs, ending } = scriptOf(runId);
      for (const [index, count] of messages.entries()) {
        if (index > 0) yield* pause(between, `${runId}-${attempt}`, control);
        for (let piece = 0; piece < count; piece++) {
          await control.sleep(delayMs);
          yield { type: "text", text: pieceOf(attempt, index, piece) };
        }
      }
      if (ending === "failed") throw new AppError("provider_refused", "the script says so");
    },
  };
}

async function* pause(between: Script["between"], name: string, control: RunControl): AsyncGenerator<Part> {
  if (between === "question") {
    await control.askUser({ kind: "question", question: `${name}?`, options: [] });
    return;
  }
  const toolCallId = `call-${name}`;
  yield { type: "tool-call", call: { toolCallId, function: { name: "lamp", arguments: "{}" } } };
  await control.sleep(20);
  yield { type: "tool-result", toolCallId, toolName: "lamp", content: "on", status: "success" };
}
