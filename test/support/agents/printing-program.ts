import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/**
 * A program for the command adapter. Its first argument says what it does with the prompt on its standard input;
 * `jsonl` prints what the prompt asks for.
 */
const [behaviour = "echo", ...rest] = process.argv.slice(2);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const json = (line: object) => say(JSON.stringify(line));
const never = () => setInterval(() => {});
/** Writes without end, as fast as it is read. */
function pour(output: NodeJS.WriteStream, text: string): void {
  while (output.write(text));
  output.once("drain", () => pour(output, text));
}

const readPrompt = () => text(process.stdin);

/** A process in a separate process session, which a signal to the group does not reach. */
function leaveBehind(): void {
  const script = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
  spawn(process.execPath, ["-e", script], { detached: true, stdio: "inherit" }).unref();
}

async function jsonl(): Promise<void> {
  const prompt = await readPrompt();
  if (prompt.startsWith("speak")) {
    for (const each of ["One, ", "two, ", "three."]) json({ type: "text", text: each });
    json({ type: "usage", input: 3, output: 4 });
  } else if (prompt.startsWith("stall")) {
    json({ type: "text", text: "One, " });
    never();
  } else {
    json({ type: "error", code: "provider_rate_limited", message: "slow down", retry_after: 7 });
  }
}

const BEHAVIOURS: Record<string, () => Promise<void> | void> = {
  jsonl,
  echo: async () => void process.stdout.write(await readPrompt()),
  arguments: () => say(rest.join("|")),
  environment: () => say(Object.keys(process.env).sort().join(" ")),
  lines: () => void process.stdout.write("one\r\n\ntwo\nthree\n"),
  secret: () => {
    process.stderr.write(`using ${process.env["THE_KEY"]}\n`);
    say(`I know ${process.env["THE_KEY"]}.`);
    process.exitCode = 3;
  },
  "whole-then-fails": () => {
    json({ type: "message", content: "Done." });
    process.stderr.write("closing\n");
    process.exitCode = 3;
  },
  // The key in two lines; and where a piece of a long line ends, which is not a line's end.
  pieces: () => {
    const key = process.env["THE_KEY"] ?? "";
    process.stderr.write(`using ${key}\n${"y".repeat(4_096 - 12)}${key}\nand s\n`);
    say(`I know ${key}.`);
    say(`${"x".repeat(8_192 - 7)}${key}`);
    say("and s");
  },
  tokens: () => {
    const key = process.env["THE_KEY"] ?? "";
    json({ type: "text", text: `I know ${key.slice(0, 7)}` });
    json({ type: "usage", input: 1, output: 1 });
    json({ type: "text", text: `${key.slice(7)}.` });
    json({ type: "data", name: key, data: { [key]: key } });
    json({ type: "tool-call", id: "1", name: "look", arguments: { key } });
    say(`${"y".repeat(4_096 - 7)}${key}`);
    json({ type: "text", text: "and s" });
    if (rest[0] === "hangs") never();
    else json({ type: "error", message: `no ${key}` });
  },
  parts: () => {
    json({ type: "reasoning", text: "hm" });
    json({ type: "tool-call", id: "t", name: "look", arguments: { at: "it" } });
    json({ type: "tool-result", id: "t", name: "look", content: "seen" });
    say("this is no JSON");
    json({ type: "unheard of" });
    json({ type: "message", content: "Whole.", output: "w" });
    json({ type: "data", name: "chart", data: [1] });
    json({ type: "log", text: "a line" });
  },
  nested: () => {
    const list = "[".repeat(100_000) + "]".repeat(100_000);
    const object = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    say(`{"type":"data","name":"chart","data":${list}}`);
    say(`{"type":"tool-call","id":"1","name":"look","arguments":${object}}`);
    say(`{"type":"unheard of","rest":${list}}`);
    json({ type: "text", text: "Still here." });
  },
  code: () => {
    say("Half");
    process.exitCode = Number(rest[0]);
  },
  halves: () => {
    json({ type: "text", text: "A \ud83d" });
    json({ type: "text", text: "\ude97 drives" });
    json({ type: "reasoning", text: "\ud83d" });
    json({ type: "text", text: "." });
  },
  // These characters stand where pieces of 8,192 or 4,096 units would be cut.
  cars: () => {
    const line = `x${"\u{1F697}".repeat(5_000)}`;
    process.stderr.write(`${line}\n`);
    say(line);
  },
  mute: () => void process.stderr.write("nothing to say\n"),
  short: () => {
    json({ type: "text", text: "Once upon a " });
    json({ type: "finish", reason: "length" });
  },
  silent: () => void never(),
  works: () => {
    process.stderr.write("begun\n");
    never();
  },
  pauses: () => {
    say("One");
    never();
  },
  flood: () => pour(process.stdout, `${"x".repeat(65_536)}${rest[0] === "line" ? "" : "\n"}`),
  // Lines without a part of a reply, or a log, without end.
  drones: () => {
    if (rest[1] === "begun") json({ type: "text", text: "So:" });
    const lines = rest[0] === "empty" ? "\n".repeat(8_192) : `${"x".repeat(8_000)}\n`;
    pour(rest[0] === "log" ? process.stderr : process.stdout, lines);
  },
  leaves: () => {
    leaveBehind();
    say("Bye");
  },
  // A process without a mark of its run, and without a parent that has one, keeps the pipe open.
  escapes: () => {
    const escaped = "echo $$; echo >&3; exec /bin/sleep 30 3>&-";
    const command = `(ulimit -Sm unlimited; /usr/bin/env -i /usr/bin/setsid sh -c '${escaped}' &)`;
    const { stdio } = spawn("/bin/sh", ["-c", command], { stdio: ["ignore", "inherit", "inherit", "pipe"] });
    stdio[3]!.once("data", () => stdio[3]!.destroy());
  },
  // Its child is in a process session of its own, and without the mark of the run.
  clears: () => {
    const child = spawn("/bin/sleep", ["600"], { detached: true, stdio: "ignore", env: {} });
    say(`${child.pid}`);
    never();
  },
  stubborn: () => {
    process.on("SIGTERM", () => {});
    leaveBehind();
    say("I stay");
    never();
  },
};

await BEHAVIOURS[behaviour]!();
