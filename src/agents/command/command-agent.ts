import type { CommandAdapter } from "../../config/catalog/adapter.ts";
import type { AgentEntry } from "../../config/catalog/catalog.ts";
import { AppError } from "../../protocol/errors.ts";
import { cleanText } from "../../shared/text.ts";
import type { Agent, Part, RunControl, Turn } from "../agent.ts";
import type { Exit } from "../process/child-program.ts";
import { ProgramRun, type ProgramTools, startPartOf } from "../process/program-run.ts";
import { brief } from "../transcript.ts";
import { readJsonLine } from "./json-line.ts";

/** The longest streamed piece of text, in UTF-16 units. */
const MAX_PIECE_UNITS = 8_192;
/** The longest line of JSON, in UTF-16 units. */
const MAX_JSON_UNITS = 4_194_304;
/** Linux accepts no argument longer than 128 KiB. */
const MAX_ARGUMENT_BYTES = 131_000;
const PROMPT = "{prompt}";

/** Exit codes of sysexits.h with a specific meaning. */
const CODES: Readonly<Record<number, "provider_rate_limited" | "provider_refused">> = {
  75: "provider_rate_limited",
  77: "provider_refused",
};

/** An agent that is a program: it reads a prompt and prints lines; one process per run. */
export function createCommandAgent(entry: AgentEntry, adapter: CommandAdapter, tools: () => ProgramTools): Agent {
  const times = { startMs: adapter.start_timeout, silenceMs: adapter.silence_timeout };
  return {
    id: entry.id,
    yields: adapter.yields,
    restartable: adapter.restartable,
    async *run(turn: Turn, control: RunControl): AsyncGenerator<Part> {
      const { signal } = control;
      signal.throwIfAborted();
      const prompt = promptOf(entry, adapter, turn);
      const args = argumentsOf(adapter, prompt);
      yield startPartOf(adapter, adapter.args, tools().env);
      const run = await ProgramRun.start(adapter, args, times, tools(), { turn, control });
      // The program's output is no longer needed, so it need not finish.
      const end = () => {
        run.items.discard();
        return run.child.end(0);
      };
      signal.addEventListener("abort", end, { once: true });
      try {
        // The run may have been aborted while the program started.
        signal.throwIfAborted();
        run.child.stdin.end(isArgument(adapter) ? undefined : prompt);
        void readOutput(run, adapter.format);
        const failure = yield* run.drain(signal);
        await run.child.end();
        const exit = run.exitPart();
        if (exit) yield exit;
        if (failure !== undefined) throw failure;
        mustSucceed(await run.child.exited);
        if (!SPEAKING.some((type) => run.drained.has(type))) yield { type: "finish", reason: "empty" };
      } finally {
        signal.removeEventListener("abort", end);
        await end();
        run.logExit(tools().log, { agentId: entry.id, sessionId: turn.sessionId, runId: turn.runId });
      }
    },
  };
}

/** Parts that count as a reply. A program that exits without any of them gave an empty reply. */
const SPEAKING = ["text", "message", "tool-call", "data", "finish"] as const;

/** Put the program's output into the queue, and close the queue when the program has ended. */
async function readOutput(run: ProgramRun, format: CommandAdapter["format"]): Promise<void> {
  const { items, child } = run;
  try {
    if (format === "text") await readText(run);
    else await readJson(run);
    await child.ended;
    await run.logged();
  } catch (error) {
    items.push({ type: "failure", error }, 0);
  }
  run.close();
}

/**
 * Lines are streamed as they arrive. A line break is sent with the next line, so that a reply does not end with a line
 * break.
 */
async function readText(run: ProgramRun): Promise<void> {
  const { redactor, items } = run;
  let breaks = "";
  const report = (said: string) => {
    let end = said.length;
    while (said[end - 1] === "\n") end -= 1;
    if (end > 0) {
      run.noteReply();
      items.push({ type: "text", text: cleanText(breaks + said.slice(0, end)) }, said.length + 64);
      breaks = "";
    }
    // Repeated empty lines are dropped; a program that prints only empty lines produces no output.
    breaks = (breaks + said.slice(end)).slice(0, MAX_PIECE_UNITS);
  };
  let waiting = "";
  try {
    for await (const { text, isEnd } of run.lines(MAX_PIECE_UNITS)) {
      const { clean, rest } = redactor.split(waiting + text + (isEnd ? "\n" : ""));
      waiting = rest;
      report(clean);
    }
  } finally {
    report(redactor.end(waiting));
  }
}

async function readJson(run: ProgramRun): Promise<void> {
  for await (const { text, isEnd } of run.lines(MAX_JSON_UNITS)) {
    if (!isEnd) throw new AppError("too_large", "The program printed a line of more than 4,194,304 characters.");
    if (text.trim() === "") continue;
    const item = readJsonLine(text, run.redactor.text);
    if (!item) run.log("stdout", cleanText(text));
    else if (item.type === "failure") run.items.push(item, 0);
    else run.emit(item);
  }
}

function isArgument({ args }: CommandAdapter): boolean {
  return args.some((arg) => arg.includes(PROMPT));
}

function argumentsOf({ args }: CommandAdapter, prompt: string): string[] {
  return args.map((arg) => {
    if (!arg.includes(PROMPT)) return arg;
    // A prompt that begins with a dash must not be taken for an option.
    const filled = arg.replaceAll(PROMPT, () =>
      arg.startsWith(PROMPT) && prompt.startsWith("-") ? ` ${prompt}` : prompt,
    );
    if (Buffer.byteLength(filled) > MAX_ARGUMENT_BYTES) {
      throw new AppError("too_large", "The message is longer than an argument of a program may be (128 KiB).");
    }
    return filled;
  });
}

function promptOf({ id, instructions }: AgentEntry, { history }: CommandAdapter, turn: Turn): string {
  const { missed, interrupted } = history ? brief(id, turn, "nothing") : {};
  return [instructions, missed, turn.input.content, interrupted].filter(Boolean).join("\n\n");
}

/** @throws AppError for an exit that means failure */
function mustSucceed({ code, signal }: Exit): void {
  if (code === 0) return;
  const how = code === null ? `was ended by ${signal}` : `ended with code ${code}`;
  throw new AppError(CODES[code ?? 0] ?? "provider_unreachable", `This agent's program ${how}.`);
}
