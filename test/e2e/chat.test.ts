import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Language } from "../../src/cli/language.ts";
import { runChat } from "../../src/cli/run-chat.ts";
import { createClient } from "../../src/client/client.ts";
import { BARE_ENV } from "../support/agents/bare-env.ts";
import { scripted } from "../support/catalogs/e2e-catalog.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { testWith } from "../support/programs/suites.ts";
import { freePort } from "../support/servers/free-port.ts";

const node = await NodeUnderTest.start({}, afterAll);
const ENTRY = fileURLToPath(new URL("../../bin/interlock.js", import.meta.url));

/** A chat that reads a pipe. `says` waits until its output has a text, and removes all until its end. */
function chatting(options: { url?: string; user?: string; agent?: string; language?: Language } = {}) {
  const stdin = new PassThrough();
  const stopping = new AbortController();
  onTestFinished(() => stopping.abort());
  let text = "";
  let rest = "";
  let errors = "";
  let changed = Promise.withResolvers<void>();
  const stdout = {
    write: (piece: string) => {
      text += piece;
      rest += piece;
      changed.resolve();
      changed = Promise.withResolvers();
      return true;
    },
  };
  const streams = { stdin, stdout, stderr: { write: (piece: string) => (errors += piece) }, env: {} };
  const { url = node.url, user = node.newUser(), agent, language } = options;
  const done = runChat({ url, user, agent, language, signal: stopping.signal }, streams as unknown as NodeJS.Process);
  return {
    user,
    done,
    stopping,
    get text() {
      return text;
    },
    get errors() {
      return errors;
    },
    type: (line: string) => void stdin.write(`${line}\n`),
    end: () => void stdin.end(),
    /** Type the last lines. @returns the exit code */
    read: (...lines: string[]) => {
      for (const line of lines) stdin.write(`${line}\n`);
      stdin.end();
      return done;
    },
    async says(wanted: string) {
      while (!rest.includes(wanted)) await changed.promise;
      rest = rest.slice(rest.indexOf(wanted) + wanted.length);
    },
  };
}

const client = createClient({ baseUrl: node.url });
const sessionsOf = async (userId: string) =>
  (await client.listSessions({ userId, includeArchived: true })).sessions.map(({ agentId, state }) => [agentId, state]);

describe("a chat from a pipe", () => {
  test("each line is answered before the next is sent, and the session ends with the last", async () => {
    const chat = chatting();
    expect(await chat.read("hello", "nod")).toBe(0);
    expect(chat.text).toMatch(/^▶ General has the floor: .*\nGeneral › Hello there\.\nGeneral › Yes\.\n/);
    expect(await sessionsOf(chat.user)).toEqual([["general", "archived"]]);
  });

  test("questions and confirmations are answered in place, and without an answer the turn is aborted", async () => {
    const chat = chatting();
    const lines = [
      "ask",
      "2",
      "delete",
      "y",
      "delete",
      "OK",
      "delete",
      "好的",
      "delete",
      "not this one",
      "pick",
      "1 2",
      "ask",
    ];
    expect(await chat.read(...lines)).toBe(1);
    const shown = chat.text.split("\n");
    expect(shown).toEqual(
      expect.arrayContaining([
        "? Which one?",
        "  1: a",
        "  2: b",
        "General › You chose b.",
        "General › Deleted.",
        "General › Kept it.",
        "■ aborted",
      ]),
    );
    expect(shown.filter((line) => line === "General › Deleted.")).toHaveLength(3);
    expect(chat.text).toMatch(/General › You picked a, ?b\.\n/);
    expect(chat.text).toContain(
      '  ⚙ delete_file {"path":"a.txt"}\n? may it call delete_file {"path":"a.txt"} (sensitive)\n',
    );
  });

  test("a session moves to another floor of its user, and the next message goes to it there", async () => {
    const chat = chatting();
    expect(await chat.read("hello", "/move rear", "nod")).toBe(0);
    expect(chat.text).toContain(`■ General goes on on u:${chat.user}/rear`);
    expect(chat.text).toMatch(/General › Yes\.\n/);
    const { sessions } = await client.listSessions({ userId: chat.user, includeArchived: true });
    expect(sessions.map(({ zone, messageCount }) => [zone, messageCount]).toSorted()).toEqual([
      [undefined, 2],
      ["rear", 4],
    ]);
  });

  test("a session that another client moves is followed: its turn, and the next message, go on there", async () => {
    const chat = chatting();
    chat.type("play");
    await chat.says("♪");
    const { sessions: before } = await client.listSessions({ userId: chat.user });
    const { session } = await client.moveSession(before[0]!.id, "rear");
    await chat.says(`goes on on u:${chat.user}/rear`);
    await chat.says("♪");
    await client.send({ type: "abort", sessionId: session.id });
    expect(await chat.read("nod")).toBe(0);
    expect(chat.text).toMatch(/General › Yes\.\n/);
    const { sessions } = await client.listSessions({ userId: chat.user, includeArchived: true });
    expect(sessions.map(({ zone, state }) => [zone, state]).toSorted()).toEqual([
      [undefined, "archived"],
      ["rear", "archived"],
    ]);
  });

  test("a message to an agent that still answers is told once, and is no failure", async () => {
    const chat = chatting();
    const { session } = await client.createSession({ userId: chat.user, agentId: "general", activate: true });
    await client.send({ type: "chat", sessionId: session.id, content: "play" });
    expect(await chat.read("/session 1", "hello", "/abort")).toBe(0);
    expect(chat.text.match(/still answers|agent_busy|fails/g)).toEqual(["still answers"]);
  });

  test.each([
    ["/nonsense", "there is no /nonsense: /help lists the commands"],
    ["/histry", "there is no /histry; did you mean /history?"],
    ["/pause", "there is no session yet: send a message, or /new"],
    ["/session 7", "/session N: a number of /sessions"],
    ["/new genral", "✗ agent_not_found: Invalid agent ID: genral; did you mean general?"],
    ["hello\n/switch genral", "✗ agent_not_found: Invalid agent ID: genral; did you mean general?"],
  ])("a command that cannot be carried out says why, and makes the exit code 1: %s", async (line, sentence) => {
    const chat = chatting();
    expect(await chat.read(line)).toBe(1);
    expect(chat.text.split("\n")).toContain(sentence);
  });

  test("without a node the chat ends with a sentence and code 1, whatever comes from the pipe", async () => {
    const chat = chatting({ url: `http://127.0.0.1:${await freePort()}` });
    chat.type("hello");
    expect(await chat.done).toBe(1);
    expect([chat.text, chat.errors]).toEqual([
      "",
      expect.stringMatching(/^interlock: No Interlock node answers at http/),
    ]);
  });

  test("a chat speaks the language that it is given, and so do the decisions about its sessions", async () => {
    const chat = chatting({ agent: "music", language: "zh" });
    await client.createSession({ userId: chat.user, agentId: "phone", activate: true });
    expect(await chat.read("/nonsense", "hello")).toBe(1);
    expect(chat.text).toContain("没有 /nonsense 这个命令：/help 列出命令");
    expect(chat.text).toContain("✗ Music 被拒绝：20 < 90 (lower_priority) “Phone进行中；Music需要等待。”");
  });
});

describe("a chat with a catalogue that has `routing`", async () => {
  const routed = await NodeUnderTest.start({
    agents: [
      scripted("general", { priority: 40, after_turn: "yield" }),
      scripted("music", { priority: 20, after_turn: "yield" }),
      scripted("phone", { priority: 90, interruptible: false }),
    ],
    catalog: {
      default_agent: "general",
      routing: [{ says: "mhm", ignore: true }, { says: "^nod", agent: "music" }, { continues: "1h" }],
    },
  });
  afterAll(() => routed.stop());
  const watching = createClient({ baseUrl: routed.url });
  const agentsOf = async (userId: string) =>
    (await watching.listSessions({ userId, includeArchived: true })).sessions
      .map(({ agentId, state, messageCount }) => [agentId, state, messageCount])
      .toSorted();

  test("each line goes to the agent that hears it, and is shown to the end of its answer", async () => {
    const chat = chatting({ url: routed.url });
    expect([await chat.read("hello", "nod", "hello", "Mhm.", "ask", "2"), chat.errors]).toEqual([0, ""]);
    const shown = chat.text.split("\n").filter((line) => /^\S+ [‹›]|^[ ?‹]/.test(line));
    expect(shown).toEqual([
      "‹ General hears the sentence: no row of routing decided, and it is the default agent",
      "General › Hello there.",
      "‹ Music hears the sentence: row 2 of routing fits it",
      "Music › Yes.",
      "‹ Music hears the sentence: it goes on, by row 3 of routing",
      "Music › Hello there.",
      "‹ nobody hears the sentence: row 1 of routing fits it",
      "‹ Music hears the sentence: it goes on, by row 3 of routing",
      "? Which one?",
      "  1: a",
      "  2: b",
      "  a number, or other words",
      "Music › You chose b.",
    ]);
    expect(await agentsOf(chat.user)).toEqual([
      ["general", "archived", 2],
      ["music", "archived", 6],
    ]);
  });

  test("a sentence that is refused is told once, with who was to hear it, and leaves no session", async () => {
    const chat = chatting({ url: routed.url });
    await watching.createSession({ userId: chat.user, agentId: "phone", activate: true });
    expect(await chat.read("nod")).toBe(1);
    expect(chat.text.match(/refused/g)).toHaveLength(1);
    expect(chat.text).toContain("✗ Music is refused: 20 < 90 (lower_priority)");
    expect(await agentsOf(chat.user)).toEqual([["phone", "active", 0]]);
  });

  test("lines go to a chosen session until none is chosen, also if one connection cannot follow all", async () => {
    const userId = routed.newUser();
    for (let made = 0; made < 9; made++) await watching.createSession({ userId, agentId: "general" });
    const chat = chatting({ url: routed.url, user: userId });
    for (const line of ["/session 1", "nod", "/session", "nod", "/session 1"]) chat.type(line);
    await chat.says("General › Yes.");
    await chat.says("each message goes to the agent that it is for");
    await chat.says("Music › Yes.");
    chat.end();
    expect([await chat.done, chat.errors]).toEqual([0, ""]);
  });

  test("with --agent nothing is routed", async () => {
    const chat = chatting({ url: routed.url, agent: "general" });
    expect(await chat.read("nod", "hello")).toBe(0);
    expect(await agentsOf(chat.user)).toEqual([["general", "archived", 4]]);
  });
});

test("the events of all sessions of a user are shown, and commands act on the chosen one", async () => {
  const chat = chatting();
  chat.type("play");
  await chat.says("General › ♪ ");
  // In a pipe the next line waits for the answer, so that the rest is done by another client.
  const phone = await client.createSession({ userId: chat.user, agentId: "phone", activate: true });
  await chat.says("‖ General is paused for Phone");
  await client.archiveSession(phone.session.id);
  await chat.says("▶ General goes on");
  await client.stopAll(phone.session.floorId);
  await chat.says("■ General ends");
  await client.createSession({ userId: chat.user, agentId: "phone" });
  for (const line of ["/new weather", "/sessions", "/pause", "/why", "/switch planner", "/agents", "/nonsense"])
    chat.type(line);
  await chat.says("a new session with Weather");
  await chat.says("  1  Phone: created");
  await chat.says("* 2  Weather: created");
  await chat.says("the floor is free");
  await chat.says("↺ Weather hands over to Planner");
  await chat.says("  phone ");
  await chat.says("there is no /nonsense");
  chat.type("browse");
  await chat.says("  Planner › weather › Hello ");
  await chat.says("Planner › It says: Hello there.");
  // A line about the call may come between two words of the agent that it calls.
  const spoken = chat.text.matchAll(/^ {2}Planner › weather › (.*)$/gm);
  expect([...spoken].map(([, words]) => words).join("")).toBe("Hello there.");
  chat.type("/quit");
  await chat.done;
});

test("a user with more sessions than one connection follows has them all, and begins another", async () => {
  const userId = node.newUser();
  const made = await Promise.all(Array.from({ length: 9 }, () => client.createSession({ userId, agentId: "general" })));
  const chat = chatting({ user: userId });
  for (const line of ["/sessions", "hello"]) chat.type(line);
  await chat.says("  9  General: created");
  await chat.says("General › Hello there.");
  for (const { session } of made) await client.archiveSession(session.id);
  for (const _ of made) await chat.says("■ General ends");
  chat.end();
  expect([await chat.done, chat.errors]).toEqual([0, ""]);
});

test.each(["a store that lasts", "a new store, with a new session"])(
  "a chat goes on after the node was started again on %s",
  async (kind) => {
    const folder = await mkdtemp(join(tmpdir(), "interlock-chat-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const store = kind === "a store that lasts" ? `sqlite:${join(folder, "chat.db")}` : "sqlite::memory:";
    const settings = { PORT: String(await freePort()), INTERLOCK_STORE: store };
    const first = await NodeUnderTest.start({ settings });
    const chat = chatting({ url: first.url });
    chat.type("hello");
    await chat.says("Hello there.");
    await first.stop();
    await chat.says("— the connection is lost; trying again —");
    await NodeUnderTest.start({ settings }, onTestFinished);
    await chat.says("— connected again —");
    chat.type("/why");
    await chat.says(kind === "a store that lasts" ? "General has the floor" : "there is no session yet");
    chat.type("nod");
    await chat.says("General › Yes.");
    chat.end();
    // Without a session `/why` has no answer.
    expect(await chat.done).toBe(kind === "a store that lasts" ? 0 : 1);
  },
);

testWith(
  ["script", "coreutils"],
  "in a terminal the prompt stays below what happens, and Ctrl-C leaves the terminal as it was",
  async () => {
    const user = node.newUser();
    const { session } = await client.createSession({ userId: user });
    await client.send({ type: "chat", sessionId: session.id, content: "earlier" });
    const command = `stty -g; ${process.execPath} ${ENTRY} chat --url ${node.url} --user ${user}; stty -g`;
    const child = spawn("script", ["-qec", command, "/dev/null"], {
      env: { ...BARE_ENV, SHELL: "/bin/sh", NO_COLOR: "1" },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    let text = "";
    let from = 0;
    const until = async (wanted: string) => {
      while (!text.includes(wanted, from)) await once(child.stdout, "data");
      from = text.indexOf(wanted, from) + wanted.length;
    };
    child.stdout.setEncoding("utf8").on("data", (piece) => (text += piece));
    await until("you ‹ earlier");
    await until("/help lists");
    await until("General> ");
    child.stdin.write("hel");
    await until("hel");
    await client.renameSession(session.id, "another title");
    child.stdin.write("lo\r");
    await until("General › Hello there.");
    child.stdin.write("\u0003");
    await once(child, "close");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: NO_COLOR leaves no sequence for colours
    expect(text).not.toMatch(/\u001b\[\d*m/);
    const modes = text.split("\r\n").filter((line) => /^[0-9a-f]+(:[0-9a-f]+)+$/.test(line));
    expect(modes).toHaveLength(2);
    expect(modes[0]).toBe(modes[1]);
  },
);
