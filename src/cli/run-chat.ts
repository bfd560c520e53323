import { userInfo } from "node:os";
import { createInterface, type Interface } from "node:readline";
import { TerminalChat } from "./chat.ts";
import { runChatCommand } from "./chat-commands.ts";
import { PlainScreen, TerminalScreen } from "./chat-screen.ts";
import { type Language, languageOf } from "./language.ts";
import { clientOf, explainFailure } from "./node-client.ts";
import { paintFor } from "./paint.ts";
import { complain, printLines } from "./printed-lines.ts";

/** Lines that the up key brings back. */
const HISTORY = 200;

export interface ChatOptions {
  url: string;
  /** Default: the name of this machine's user. */
  user?: string | undefined;
  agent?: string | undefined;
  /** Of the sentences. Default: the terminal's. */
  language?: Language | undefined;
  /** Ends the chat. */
  signal: AbortSignal;
}

type Streams = Pick<NodeJS.Process, "stdin" | "stdout" | "stderr" | "env">;

/**
 * `interlock chat`: talk with agents in a terminal. From a pipe, each line is a message that is sent when the one
 * before is answered, and the session ends with the last one.
 * @returns the exit code: 0, or 1 if the node refuses the chat, or, from a pipe, something was refused or failed
 */
export async function runChat(options: ChatOptions, { stdin, stdout, stderr, env }: Streams): Promise<number> {
  const isTyped = stdin.isTTY === true && stdout.isTTY === true;
  const reader = createInterface({
    input: stdin,
    ...(isTyped && { output: stdout, historySize: HISTORY }),
    terminal: isTyped,
  });
  const closing = new AbortController();
  const signal = AbortSignal.any([options.signal, closing.signal]);
  const paint = paintFor(stdout, env);
  const language = options.language ?? languageOf(env);
  const chat = new TerminalChat(
    {
      client: clientOf(options.url, env, language),
      userId: options.user ?? userInfo().username,
      agentId: options.agent,
      command: runChatCommand,
      language,
      screen: isTyped ? new TerminalScreen(reader, stdout, paint) : new PlainScreen(stdout, paint),
    },
    signal,
  );
  // A line that comes before the connection is made is kept.
  const lines = linesOf(reader, signal);
  try {
    await chat.open();
    await Promise.race([isTyped ? converse(chat, lines, reader) : answerAll(chat, lines), chat.over]);
    return chat.hasFailed && !isTyped ? 1 : 0;
  } catch (error) {
    if (signal.aborted) return 0;
    complain(
      stderr,
      explainFailure(error, { baseUrl: options.url, env, needed: "an operator's token or key, or that of --user" }),
    );
    return 1;
  } finally {
    closing.abort();
    chat.close();
    // Takes the terminal out of the mode in which keys are read one by one.
    reader.close();
    if (isTyped) printLines(stdout, [""]);
  }
}

/** The lines until the input ends, Ctrl-C is pressed, or the chat is stopped. */
function linesOf(reader: Interface, signal: AbortSignal): AsyncIterable<string> {
  const waiting: string[] = [];
  let isOver = false;
  let wake = Promise.withResolvers<void>();
  const end = () => {
    isOver = true;
    wake.resolve();
  };
  reader.on("line", (line) => {
    waiting.push(line);
    wake.resolve();
  });
  reader.on("close", end);
  reader.on("SIGINT", end);
  signal.addEventListener("abort", end);
  return (async function* () {
    for (;;) {
      const line = waiting.shift();
      if (line !== undefined && !signal.aborted) yield line;
      else if (isOver) return;
      else {
        wake = Promise.withResolvers();
        if (waiting.length === 0 && !isOver) await wake.promise;
      }
    }
  })();
}

/** Read typed lines, while events appear above them. */
async function converse(chat: TerminalChat, lines: AsyncIterable<string>, reader: Interface): Promise<void> {
  const latest = chat.latest();
  if (latest) await chat.goOn(latest.id);
  chat.say(chat.words.hint);
  const prompt = () => {
    const session = chat.addressee === undefined ? undefined : chat.sessions.get(chat.addressee);
    const agentId = session?.agentId ?? chat.setting.agentId;
    chat.setting.screen.prompt(chat.hasQuestion ? "? " : `${agentId === undefined ? "" : chat.nameOf(agentId)}> `);
  };
  prompt();
  for await (const line of lines) {
    if (!(await chat.handle(line))) break;
    prompt();
  }
  reader.setPrompt("");
}

/** Take one line after the other, each when the one before is answered. The sessions that it makes end with it. */
async function answerAll(chat: TerminalChat, lines: AsyncIterable<string>): Promise<void> {
  try {
    for await (const line of lines) {
      if (!(await chat.handle(line))) break;
      await chat.finished();
    }
    // No further line can answer.
    if (chat.hasQuestion) {
      chat.hasFailed = true;
      await chat.handle("/abort");
    }
  } finally {
    for (const id of chat.made) {
      await chat.setting.client.stopSession(id).catch(() => undefined);
    }
  }
}
