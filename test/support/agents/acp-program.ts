import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/**
 * A coding agent that speaks the Agent Client Protocol without a library, so that it can also break the protocol. Its
 * first argument names its capabilities, its second the folder of its conversations; the user's message selects the
 * first of BEHAVIOURS whose name it contains.
 */
type Json = Record<string, unknown>;
type Message = { id?: number | string; method?: string; params?: Json; result?: Json; error?: Json };

const [ability = "resumes", folder = "."] = process.argv.slice(2);
const out = (line: string) => process.stdout.write(`${line}\n`);
const send = (message: object) => out(JSON.stringify({ jsonrpc: "2.0", ...message }));
const update = (sessionUpdate: string, rest: object, sessionId = session.id) =>
  send({ method: "session/update", params: { sessionId, update: { sessionUpdate, ...rest } } });
const say = (text: string, messageId = "m1") =>
  update("agent_message_chunk", { content: { type: "text", text }, messageId });
const drained = () => new Promise((resolve) => process.stdout.once("drain", resolve));
const never = () => new Promise<never>(() => setInterval(() => {}, 60_000));
const chatter = (line: string) => new Promise<never>(() => setInterval(() => out(line), 50));

const session = { id: "", params: {} as Json, prompts: [] as string[] };
const file = (id: string) => join(folder, `${id}.json`);
let asked = 0;
const waiting = new Map<string, (result: Json) => void>();
let cancelled = Promise.withResolvers<void>();

function ask(method: string, params: object): Promise<Json> {
  const id = `ask-${asked++}`;
  send({ id, method, params: { sessionId: session.id, ...params } });
  return new Promise((resolve) => waiting.set(id, resolve));
}

function leaveBehind(): void {
  const script = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
  spawn(process.execPath, ["-e", script], { detached: true, stdio: "inherit" }).unref();
}

const OPTIONS = [
  { optionId: "always", name: "Always", kind: "allow_always" },
  { optionId: "once", name: "Once", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const askPermission = (toolCallId: string, rest: object = {}) =>
  ask("session/request_permission", {
    toolCall: { toolCallId, name: "shell", title: "ls /", kind: "execute", rawInput: { command: "ls /" } },
    options: OPTIONS,
    ...rest,
  });

/** Shows the user a form with these fields. */
const askForm = (message: string, properties: object, rest: object = {}) =>
  ask("elicitation/create", { mode: "form", message, requestedSchema: { type: "object", properties }, ...rest });
const COLOUR = { q0: { type: "string", title: "Colour" } };

/** Requests a permission, and prints the answer. */
async function run(toolCallId: string): Promise<string> {
  const { outcome } = (await askPermission(toolCallId)) as { outcome: { outcome: string; optionId?: string } };
  const isAllowed = outcome.optionId === "once";
  if (outcome.outcome === "selected") {
    update("tool_call_update", {
      toolCallId,
      status: isAllowed ? "completed" : "failed",
      content: [{ type: "content", content: { type: "text", text: isAllowed ? "bin etc" : "rejected" } }],
    });
  }
  return outcome.optionId ?? outcome.outcome;
}

/** Calls the server of the run's tools; returns its answer, or the status of a refusal. */
async function askTools(method: string, params: object, token?: string, leaving?: AbortController): Promise<Json> {
  const [server] = (session.params["mcpServers"] ?? []) as {
    url: string;
    headers: { name: string; value: string }[];
  }[];
  if (!server) return { refused: "no server" };
  const headers = Object.fromEntries(server.headers.map(({ name, value }) => [name, value]));
  const answer = await fetch(server.url, {
    method: "POST",
    headers: {
      ...headers,
      ...(token !== undefined && { Authorization: token }),
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-06-18",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    ...(leaving && { signal: leaving.signal }),
  });
  if (!answer.ok) return { refused: answer.status };
  const data = /^data: (.+)$/m.exec(await answer.text())![1]!;
  return (JSON.parse(data) as { result: Json }).result;
}

const callTool = async (name: string, input: object): Promise<string> => {
  const { content } = await askTools("tools/call", { name, arguments: input });
  return (content as { text: string }[]).map(({ text }) => text).join("");
};

const USAGE = { totalTokens: 12, inputTokens: 3, outputTokens: 4, cachedReadTokens: 5 };

/** By the message's text and its blocks. One that returns no answer ends its turn normally. */
const BEHAVIOURS: Record<string, (text: string, prompt: Json[]) => unknown> = {
  speak: () => {
    for (const text of ["One, ", "two, ", "three."]) say(text);
    return { stopReason: "end_turn", usage: USAGE };
  },
  stall: async () => {
    say("One, ");
    await cancelled.promise;
    return { stopReason: "cancelled" };
  },
  limited: () => ({ error: { code: -32_603, message: "too much", data: { errorKind: "rate_limit" } } }),
  login: () => ({ error: { code: -32_000, message: "Authentication required" } }),
  broken: () => ({ error: { code: -32_603, message: `it broke with ${process.env["THE_KEY"]}` } }),
  hidden: () => {
    say("API error 429");
    const failure = { category: "limit", severity: "error", title: "Usage limit reached" };
    return { stopReason: "end_turn", _meta: { jetbrains: { air: { sessionFailure: failure } } } };
  },
  codexed: () => {
    update("session_info_update", { _meta: { codex: { error: { message: "stream gone", willRetry: true } } } });
    update("session_info_update", { _meta: { codex: { error: { message: "stream gone", willRetry: false } } } });
    say("error as text");
  },
  wordless: () => {},
  endless: () => {
    say("So long that it is cut");
    return { stopReason: "max_tokens" };
  },
  refuses: () => ({ stopReason: "refusal" }),
  unasked: () => ({ stopReason: "cancelled" }),
  // Cancels its own requests as soon as it has sent them, or once it is prompted to by a file.
  reconsiders: async (text) => {
    const asked = [askPermission("t1"), askForm("Which?", COLOUR)];
    const gate = /reconsiders (\S+)/.exec(text)?.[1];
    while (gate && !existsSync(gate)) await new Promise((resolve) => setTimeout(resolve, 20));
    for (const requestId of ["ask-0", "ask-1", "unknown", 7, null]) {
      send({ method: "$/cancel_request", params: { requestId } });
    }
    send({ method: "$/cancel_request", params: "no object" });
    say(JSON.stringify((await Promise.all(asked)).map(({ error }) => (error as { code: number }).code)));
  },
  permit: async () => say(`first: ${await run("t1")}`),
  // Asks how to go on in another mode, with its own options.
  plans: async () => {
    const options = [
      { optionId: "auto", name: "Yes, and accept edits", kind: "allow_once" },
      { optionId: "manual", name: "Yes, ask for each edit", kind: "allow_once" },
      { optionId: "keep", name: "No, keep planning", kind: "reject_once" },
    ];
    const { outcome } = (await askPermission("t1", { options })) as { outcome: { optionId?: string } };
    say(`chosen: ${outcome.optionId}`);
  },
  twice: async () => {
    say(`first: ${await run("t1")}`);
    say(`, second: ${await run("t2")}`);
  },
  // Asks for two calls at once.
  pair: async () => say(`both: ${(await Promise.all([run("t1"), run("t2")])).join(", ")}`),
  halts: async () => {
    const answer = await run("t1");
    return { stopReason: answer === "once" ? "end_turn" : "cancelled" };
  },
  works: () => {
    update("user_message_chunk", { content: { type: "text", text: "not the agent's" } });
    update("agent_thought_chunk", { content: { type: "text", text: "hm" } });
    update("plan", { entries: [{ content: "look", status: "pending", priority: "high" }] });
    update("tool_call", { toolCallId: "t", title: "Edit a.txt", kind: "edit", status: "pending", rawInput: {} });
    update("tool_call_update", { toolCallId: "t", status: "in_progress", rawInput: { path: "a.txt" } });
    const content = [{ type: "content", content: { type: "text", text: "half" } }];
    update("tool_call_update", { toolCallId: "t", status: "in_progress", content });
    update("tool_call_update", { toolCallId: "t", status: "in_progress", content });
    const diff = { type: "diff", path: "a.txt", oldText: "a", newText: "b" };
    update("tool_call_update", { toolCallId: "t", status: "completed", content: [...content, diff] });
    update("tool_call_update", { toolCallId: "t", status: "completed", content });
    update("tool_call_update", { toolCallId: "u", status: "failed", rawOutput: { reason: "gone" } });
    update("usage_update", { used: 10, size: 100 });
    update("session_info_update", { title: "A title" });
    update("current_mode_update", { currentModeId: "plan" });
    say("Done.");
    say("And more.", "m2");
    return { stopReason: "end_turn", _meta: { quota: { token_count: { input_tokens: 2, output_tokens: 1 } } } };
  },
  // Has a sub-agent, whose session counts its calls from the beginning too.
  delegates: async () => {
    const sessionId = "another-session";
    const answers = [await askPermission("t1", { sessionId }), await askPermission("t1")];
    answers.push(await askForm("Which?", COLOUR, { sessionId }));
    update("tool_call_update", { toolCallId: "t1", status: "completed", rawOutput: "theirs" }, sessionId);
    update("tool_call", { toolCallId: "t2", title: "unasked", status: "completed" }, sessionId);
    for (const text of ["not", "mine"]) {
      update("agent_message_chunk", { content: { type: "text", text }, messageId: "m1" }, sessionId);
    }
    say(JSON.stringify(answers));
  },
  // Streams its key as a model does, in pieces, and shows the rest of it while a tool runs.
  leaks: async () => {
    const key = process.env["THE_KEY"] ?? "";
    const thought = (text: string) => update("agent_thought_chunk", { content: { type: "text", text } });
    const [first, last] = [key.slice(0, 7), key.slice(7)];
    say(`The key is ${first}`);
    thought(`Is it ${first}`);
    thought(`${last}?`);
    update("usage_update", { used: 10, size: 100 });
    say(`${last}.`);
    say(first);
    const output = (text: string) => [{ type: "content", content: { type: "text", text } }];
    const rawInput = { command: `login ${key}`, [key]: true };
    update("tool_call", { toolCallId: "t", name: "shell", status: "in_progress", rawInput });
    update("tool_call_update", { toolCallId: "t", status: "in_progress", content: output(`used ${first}`) });
    // Cut within the key, in the event of the call.
    const long = "x".repeat(65_536 - 10) + key;
    update("tool_call_update", { toolCallId: "t", status: "completed", content: output(long) });
    out(`${"y".repeat(4_096 - 10)}${key}`);
    await askForm(`May I use ${key}?`, { q0: { type: "string", enum: [key, "no"] } });
    say(first);
  },
  // Answers its prompt with any JSON, after text or without it.
  shapes: (text) => {
    const [, spoken, raw] = text.match(/shapes (\w*) (.+)$/s)!;
    if (spoken) say(spoken);
    return { raw: JSON.parse(raw!) };
  },
  garbage: () => {
    out("Welcome to the agent!");
    out('{"half": ');
    out("[1, 2]");
    update("something_new", { content: 7 });
    send({ method: "session/update", params: "no object" });
    send({ method: "unheard/of", params: {} });
    update("agent_message_chunk", { content: { type: "text", text: "another session" } }, "other");
    update("agent_message_chunk", { content: 7 });
    update("tool_call", { title: "without an id" });
    update("agent_message_chunk", { content: { type: "text", text: "warning" } });
    say("Still here.");
    return { stopReason: "some_new_reason" };
  },
  // Answers to nothing, twice, and with ids of any kind.
  babbles: () => {
    for (const id of ["9999", '"evil\\nline"', "null", "{}", "[1]", "-1"])
      out(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
    for (const rest of ['"result":{}', '"id":7', '"method":7,"id":1']) out(`{"jsonrpc":"2.0",${rest}}`);
    say("Still here.");
  },
  nests: () => {
    const list = "[".repeat(100_000) + "]".repeat(100_000);
    const params = `{"sessionId":"${session.id}","update":{"sessionUpdate":"tool_call","toolCallId":"t","rawInput":[${list}]}}`;
    out(`{"jsonrpc":"2.0","method":"session/update","params":${params}}`);
    out(`{"jsonrpc":"2.0","id":"x","method":"session/request_permission","params":${list}}`);
    say("Still here.");
  },
  overlong: () => {
    const long = "x".repeat(1_000_000);
    update("agent_message_chunk", { content: { type: long, uri: long, mimeType: long, name: long } });
    update("plan", { entries: [{ content: long, status: long, priority: long }] });
    update("tool_call_update", {
      toolCallId: "t",
      status: "completed",
      content: [{ type: "diff", path: long, newText: long }],
    });
    say("Still here.");
  },
  // Asks without end, and reads none of the answers.
  interrogates: async () => {
    process.stdin.pause();
    for (let asked = 0; ; asked += 1) if (!send({ id: `q${asked}`, method: "unheard/of", params: {} })) await drained();
  },
  dies: () => {
    say("Half");
    process.stderr.write("cannot go on\n");
    return new Promise(() => process.stdout.write("", () => process.exit(7)));
  },
  mute: never,
  floods: async () => {
    const text = "x".repeat(65_536);
    for (let pieces = 0; pieces < 1_600; pieces += 1) {
      if (!say(text)) await drained();
    }
  },
  mumbles: async () => {
    const content = "x".repeat(65_536);
    for (;;) if (!update("something_new", { content })) await drained();
  },
  huge: () => say("x".repeat(20_000_000)),
  stubborn: () => {
    process.on("SIGTERM", () => {});
    leaveBehind();
    say("I stay");
    return never();
  },
  tool: async () => {
    leaveBehind();
    update("tool_call", { toolCallId: "t", name: "shell", status: "in_progress", rawInput: { command: "sleep" } });
    await cancelled.promise;
    return { stopReason: "cancelled" };
  },
  // A tool whose command is without the mark of the run. The shell between them ends with the turn, the command does
  // not.
  clears: async () => {
    const shell = spawn("/bin/sh", ["-c", "/usr/bin/env -i /bin/sleep 600 & echo $!; wait"], {
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
    });
    shell.stdout.once("data", (pid) => say(String(pid)));
    await cancelled.promise;
    shell.kill("SIGKILL");
    return { stopReason: "cancelled" };
  },
  late: () => {
    say("In time.");
    setTimeout(() => say(" Just in time."), 5);
  },
  asks: async () => {
    const oneOf = [
      { const: "r", title: "red" },
      { const: "b", title: "blue" },
    ];
    say(JSON.stringify(await askForm("Which colour?", { q0: { ...COLOUR.q0, oneOf }, q0_custom: { type: "string" } })));
  },
  lists: async () => {
    const { tools } = (await askTools("tools/list", {})) as { tools?: { name: string }[] };
    const stranger = await askTools("tools/list", {}, "Bearer x");
    say(JSON.stringify({ tools: tools?.map(({ name }) => name), stranger }));
  },
  calls: async (text) => {
    const calls = text.match(/calls (.+)$/s)![1]!;
    for (const [name, input] of JSON.parse(calls) as [string, object][]) say(`${await callTool(name, input)} `);
  },
  // Gives up a question to the user, once it is prompted to by a file.
  abandons: async (text) => {
    const gate = /abandons (\S+)/.exec(text)![1]!;
    const leaving = new AbortController();
    const asked = askTools("tools/call", { name: "ask-user", arguments: { question: "Which?" } }, undefined, leaving);
    asked.catch(() => {});
    while (!existsSync(gate)) await new Promise((resolve) => setTimeout(resolve, 20));
    leaving.abort();
    await asked.catch(() => {});
    say(await callTool("clock", {}));
  },
  // The prompt, for a program that outlives its run.
  keeps: () => say(JSON.stringify(session.params["mcpServers"])),
  echo: (_, prompt) => say(JSON.stringify({ prompt, session: session.params, before: session.prompts })),
};

const METHODS: Record<string, (params: Json) => Promise<Json> | Json> = {
  initialize: () => {
    if (ability === "hangs") return never();
    if (ability.startsWith("greets ")) return { raw: JSON.parse(ability.slice(7)) };
    if (ability === "chatters") return chatter("still starting");
    const loads = /^(loads|repeats)/.test(ability);
    return {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: loads,
        promptCapabilities: { image: true },
        mcpCapabilities: { http: true },
        sessionCapabilities: loads
          ? {}
          : { resume: {}, close: {}, ...(ability === "instructed" && { systemPrompt: {} }) },
      },
    };
  },
  "session/new": (params) => {
    if (ability.startsWith("opens ")) return { sessionId: JSON.parse(ability.slice(6)) };
    if (ability === "drifts") return chatter("still opening");
    Object.assign(session, { id: `s-${process.pid}`, params, prompts: [] });
    update("available_commands_update", { availableCommands: [] });
    return { sessionId: session.id };
  },
  "session/resume": (params) => {
    const restored = restore(params);
    if (ability.endsWith("before its answer")) replay();
    else if (ability.includes("after its answer")) setTimeout(replay, 20);
    beBusy();
    return restored;
  },
  "session/load": (params) => {
    if (ability === "repeats") return repeat(params);
    const restored = restore(params);
    if (ability.endsWith("before its answer")) replay();
    // Like Gemini: answers first, and replays the history afterwards.
    else setTimeout(replay, 20);
    beBusy();
    return restored;
  },
  "session/set_mode": ({ modeId }) => {
    session.params["mode"] = modeId;
    return {};
  },
  "session/close": () => ({}),
  "session/prompt": async ({ prompt }) => {
    cancelled = Promise.withResolvers();
    const text = (prompt as Json[]).map((block) => String(block["text"] ?? "")).join("");
    const name = Object.keys(BEHAVIOURS).find((one) => text.includes(one)) ?? "echo";
    const answer = await BEHAVIOURS[name]!(text, prompt as Json[]);
    session.prompts.push(text);
    if (folder !== ".") writeFileSync(file(session.id), JSON.stringify(session.prompts));
    return typeof answer === "object" ? (answer as Json) : { stopReason: "end_turn" };
  },
};

/** Knows every conversation, and never ends to repeat it. */
function repeat(params: Json): Json {
  session.id = String(params["sessionId"]);
  const more = () => {
    while (say("again"));
    void drained().then(more);
  };
  setImmediate(more);
  return {};
}

/** A busy machine does not let the program go on for a while. */
function beBusy(): void {
  if (ability.endsWith("busy")) setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700));
}

function replay(): void {
  for (const prompt of session.prompts) {
    update("user_message_chunk", { content: { type: "text", text: prompt } });
    update("tool_call", { toolCallId: "old", title: "an old call", status: "completed", rawInput: {} });
    say("replayed");
  }
}

function restore(params: Json): Json {
  const id = String(params["sessionId"]);
  if (!existsSync(file(id))) return { error: { code: -32_002, message: "no such session" } };
  Object.assign(session, { id, params, prompts: JSON.parse(readFileSync(file(id), "utf8")) });
  return {};
}

async function handle({ id, method, params, result, error }: Message): Promise<void> {
  if (method === undefined) {
    waiting.get(String(id))?.(result ?? { outcome: { outcome: "failed" }, error });
    return;
  }
  if (method === "session/cancel") {
    cancelled.resolve();
    return;
  }
  const answer = await METHODS[method]?.(params ?? {});
  if (id === undefined) return;
  if (!answer) send({ id, error: { code: -32_601, message: "not found" } });
  else if ("raw" in answer) send({ id, result: answer["raw"] });
  else send(answer["error"] ? { id, error: answer["error"] } : { id, result: answer });
}

process.stderr.write("listening\n");
createInterface({ input: process.stdin })
  .on("line", (line) => void handle(JSON.parse(line)))
  .on("close", () => ability !== "stays" && process.exit(0));
