import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { reportAgents, reportSessions, reportStatus } from "../../src/cli/reports.ts";
import { reportRuns } from "../../src/cli/run-report.ts";
import { widthOf } from "../../src/cli/text-width.ts";
import { reportWhy } from "../../src/cli/why.ts";
import { type Client, createClient } from "../../src/client/client.ts";
import { readKeys } from "../../src/config/keys-file.ts";
import { BARE_ENV } from "../support/agents/bare-env.ts";
import { scripted } from "../support/catalogs/e2e-catalog.ts";
import { keysFile, writeTemporary } from "../support/clients/callers.ts";
import { type Ending, endingOf, printedBy, runHere } from "../support/clients/command-line.ts";
import { accepted, E2eClient, refused } from "../support/clients/e2e-client.ts";
import { ChildServer } from "../support/nodes/child-server.ts";
import { CLI } from "../support/nodes/cli.ts";
import { NodeUnderTest } from "../support/nodes/node-under-test.ts";
import { testWith } from "../support/programs/suites.ts";

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-commands-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** What a command says on stderr that ends with this code. */
async function complaintOf(words: readonly string[], code = 1): Promise<string> {
  const ending = await runHere(words);
  expect(ending.code, ending.stderr).toBe(code);
  return ending.stderr;
}

const whyOf = async (client: Client, what: string) => (await reportWhy(client, { what, limit: 20 }, Date.now())).lines;

/** For tests whose users and sessions no other test has. */
const shared = await NodeUnderTest.start({}, afterAll);

test("forget of a name that has no session says so, with code 1", async () => {
  const typo = await runHere(["forget", "nobdy", "--yes", "--url", shared.url]);
  expect([typo.code, typo.stdout, typo.stderr]).toEqual([
    1,
    "",
    "interlock: there was no session of nobdy: is the name right? What else was known of it is deleted\n",
  ]);
});

test.each([
  [
    ["forget", "", "--yes"],
    "command-argument value '' is invalid for argument 'user'. It is empty.\nSee interlock forget --help",
  ],
  [["announce", " ", "--user", "ann"], "command-argument value ' ' is invalid for argument 'text'. It is empty."],
  [["announce", "hi", "--user", ""], "option '--user <name>' argument '' is invalid. It is empty."],
  [["sessions", "--agent", ""], "option '--agent <name>' argument '' is invalid. It is empty."],
  [["webhooks", "test", ""], "command-argument value '' is invalid for argument 'name'. It is empty."],
  [["route", ""], "command-argument value '' is invalid for argument 'sentence'. It is empty."],
  [["keys", "new"], "missing required argument 'owner'\nSee interlock keys new --help"],
  [["runs", "cancel"], "missing required argument 'run'\nSee interlock runs cancel --help"],
])("a command line without its words says which is missing: %j", async (words, sentence) => {
  const { code, stdout, stderr } = await runHere(words);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toContain(`interlock: ${sentence}\n`);
});

test("a refusal of a malformed request names the field", async () => {
  const long = "x".repeat(300);
  for (const words of [
    ["forget", long, "--yes"],
    ["sessions", "--user", long],
    ["announce", "hi", "--user", long],
  ]) {
    const complaint = await complaintOf([...words, "--url", shared.url]);
    expect(complaint).toMatch(/^interlock: The server refused with bad_request: userId: \S/);
  }
});

test("status, runs and why say that an open question's time stands still while it cannot be heard", async () => {
  const quiz = scripted("general", { priority: 40, answer_within: { heard: "20s" } });
  const node = await NodeUnderTest.start({ agents: [quiz, scripted("phone", { priority: 90 })] }, onTestFinished);
  const ann = new E2eClient(node, "ann");
  const client = createClient({ baseUrl: node.url });
  const { id } = await ann.hold("general");
  await accepted(ann.say(id, "pick some"));
  await expect.poll(async () => (await ann.see(id)).activity).toBe("waiting");
  const told = async () => {
    const reports = [
      await reportStatus(client, Date.now()),
      await reportRuns(client, { limit: 9 }, Date.now()),
      await reportWhy(client, { what: id, limit: 9 }, Date.now()),
      await reportWhy(client, { what: id, limit: 9, language: "zh" }, Date.now()),
    ];
    const lines = reports.map((report) => report.lines.join("\n"));
    return lines.map((text) => /.*(question|问题).*/.exec(text)?.[0]);
  };
  const waits = "its question waits for an answer";
  expect(await told()).toEqual([undefined, expect.stringMatching(/ question; /), waits, "它的问题在等回答"]);
  await ann.hold("phone");
  expect(await told()).toEqual([
    "questions whose time stands still, because their sessions are silent: 1",
    expect.stringMatching(/ question, unheard/),
    `${waits}, and its time stands still while it cannot be`,
    "它的问题在等回答；听不到它时，等待时间停止计算",
  ]);
});

test("chat speaks the language of its command line", async () => {
  const chat = ["chat", "--url", shared.url, "--user", shared.newUser(), "--lang", "zh"];
  const child = spawn(process.execPath, [CLI, ...chat], { cwd: await newFolder(), env: BARE_ENV });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdin.end("/nonsense\n");
  expect(await endingOf(child)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("没有 /nonsense 这个命令：/help 列出命令"),
  });
});

test("a repeated option takes one word each time, and leaves the file to the command", async () => {
  const catalogue = fileURLToPath(new URL("../../config/car.yaml", import.meta.url));
  const printed = printedBy(await runHere(["check", "--matrix", "--flag", "reverse_gear", catalogue]));
  expect(printed).toMatch(/reverse_gear/);
});

test("status names what waits and the roles that no node has, agents and sessions list them, in 80 columns", async () => {
  const node = await NodeUnderTest.start(
    { settings: { INTERLOCK_NAME: "interlock-gateway-7d9f8b6c5-x2x9z" } },
    onTestFinished,
  );
  const client = createClient({ baseUrl: node.url });
  // The answers of a store whose only node has no worker, beside one that died.
  const lacking: Client = {
    ...client,
    listNodes: async () => {
      const { nodes } = await client.listNodes();
      const lastFailure = {
        at: Date.now(),
        agentId: "music",
        reason: `api.example 401 “${"no such key ".repeat(9)}here”`,
      };
      const lone = nodes.map((each) => ({ ...each, roles: ["gateway", "orchestrator"], lastFailure }));
      const dead = { ...nodes[0]!, name: "garage", silentMs: 5_000 };
      return { nodes: [...lone, dead] as typeof nodes, absentRoles: ["worker"] };
    },
    getMetrics: async () => (await client.getMetrics()).replace(/^(interlock_runs_waiting) 0$/m, "$1 1"),
  };
  const ann = new E2eClient(node, "ann");
  const music = await ann.hold("music", { title: `${"长".repeat(60)}\u001b[31m` });
  const status = await reportStatus(lacking, Date.now());
  expect(status.lines.slice(0, 3)).toEqual([
    expect.stringMatching(/^NODE +ROLES +VERSION +UP +FLOORS +STREAMS +RUNS +SILENT$/),
    expect.stringMatching(/^…y-7d9f8b6c5-x2x9z +gate,orch +\d\S+ +\d+s +1 +0 +0\/0\/0$/),
    expect.stringMatching(/^garage +gate,orch,work .* 0\/0\/0 +5s$/),
  ]);
  expect(status.lines).toContain("runs that no worker has taken: 1");
  expect(status.lines).toContain("no node has the role worker: agents do not answer");
  expect(status.facts).toMatchObject({ absentRoles: ["worker"], unclaimedRuns: 1 });
  // The whole of what the provider said.
  const told = status.lines.slice(status.lines.findIndex((line) => line.startsWith("the last failed run"))).join(" ");
  expect(told).toMatch(/^the last failed run, \d+s ago, of music: api\.example 401 “.+ here”$/);
  expect([status.isFaulty, (await reportStatus(client, Date.now())).isFaulty]).toEqual([true, false]);
  const agents = await reportAgents(client);
  expect(agents.lines).toContainEqual(expect.stringMatching(/^general \* +\d+ /));
  await ann.create("phone");
  const sessions = await reportSessions(client, { user: "ann", limit: 1 }, Date.now());
  expect(sessions.lines).toEqual([
    expect.stringMatching(/^SESSION +STATE +AGENT +USER +ACTIVE +TITLE$/),
    expect.stringMatching(/^\S{22} +\w+ +phone +ann +\d+s +\S/),
    "",
    "1 of 2 sessions: --limit shows more",
  ]);
  const all = await reportSessions(client, { limit: 500 }, Date.now());
  for (const line of [...status.lines, ...agents.lines, ...all.lines]) {
    expect(widthOf(line)).toBeLessThanOrEqual(80);
    expect(line).not.toContain("\u001b");
  }
  const listed = JSON.parse(printedBy(await runHere(["sessions", "--url", node.url, "--json"])));
  expect(listed).toMatchObject({ total: 2, sessions: [{ agentId: "phone" }, { id: music.id }] });
  const announced = await runHere(["announce", "nod", "--user", "ann", "--agent", "general", "--url", node.url]);
  expect(printedBy(announced).split("\n").slice(0, 2)).toEqual([
    expect.stringMatching(/^DECISION +REASON +SAID$/),
    expect.stringMatching(/^granted +preempted +\S/),
  ]);
  const misspelt = await runHere(["announce", "nod", "--user", "ann", "--agent", "genral", "--url", node.url]);
  expect(misspelt.code).toBe(1);
  expect(misspelt.stdout + misspelt.stderr).toContain("Invalid agent ID: genral; did you mean general?");
});

test("runs lists what each run waits for, and the last failures with the provider's sentence, and cancels one", async () => {
  const node = await NodeUnderTest.start({ settings: { INTERLOCK_NAME: "garage" } }, onTestFinished);
  const client = createClient({ baseUrl: node.url });
  const ann = new E2eClient(node, "ann");
  const bob = new E2eClient(node, "bob");
  const music = await ann.hold("music");
  const stream = await ann.follow(music.id);
  const { runId } = await accepted(ann.say(music.id, "play"));
  await stream.find("delta");
  const broken = await bob.hold("general");
  const failing = await bob.follow(broken.id);
  await accepted(bob.say(broken.id, "refused"));
  await failing.until("complete");
  const runs = async (query: object = {}) => await reportRuns(client, { limit: 50, ...query }, Date.now());
  const { lines, facts } = await runs();
  expect(lines).toEqual([
    expect.stringMatching(/^RUN +STATE +AGE +AGENT +USER$/),
    expect.stringMatching(new RegExp(`^${runId} +driven +\\d+s +music +ann +garage for \\d+s$`)),
    "",
    expect.stringMatching(/^FAILED SESSION +AGO +AGENT +USER +CODE$/),
    expect.stringMatching(new RegExp(`^${broken.id} +\\d+s +general +bob +provider_refused$`)),
    expect.stringMatching(/^ {2}\S/),
  ]);
  expect(facts).toMatchObject({ runs: [{ id: runId }], failed: [{ sessionId: broken.id }] });
  expect((await runs({ state: "failed", user: "ann" })).lines).toHaveLength(1);
  expect((await runs({ state: "held" })).lines).toHaveLength(1);
  expect((await runs({ older: 3_600_000 })).facts).toEqual({ runs: [], failed: [] });
  const turns = await new E2eClient(node, "cat").hold("stacker");
  for (const content of ["play", "hello"]) await accepted(ann.say(turns.id, content));
  expect((await runs({ limit: 2 })).lines.slice(-2)).toEqual(["", "2 of more runs: --limit shows more"]);

  const url = ["--url", node.url];
  expect(printedBy(await runHere(["runs", "cancel", runId, ...url]))).toBe(
    `the run ${runId} of session ${music.id} is cancelled\n`,
  );
  await stream.until("complete");
  const gone = await complaintOf(["runs", "cancel", runId, ...url]);
  expect(gone).toBe(`interlock: There is no unfinished run ${runId} at ${node.url}.\n`);
  expect((await runHere(["runs", "--state", "broken", ...url])).code).toBe(2);
  expect((await runHere(["runs", "cancel", "no run", ...url])).code).toBe(2);
  const listed = JSON.parse(printedBy(await runHere(["runs", "--agent", "stacker", "--json", ...url])));
  expect(listed).toMatchObject({ runs: [{ state: "driven" }, { state: "waits_for_turn" }], failed: [] });
});

test("why tells what silenced a session, who refused it, what it waits for and what would let it through", async () => {
  const client = createClient({ baseUrl: shared.url });
  const ann = new E2eClient(shared);
  const why = (what: string) => whyOf(client, what);
  expect(await why(`u:${ann.userId}`)).toEqual(["the floor is free", "", "no decision about this floor"]);
  const music = await ann.hold("music");
  await ann.hold("phone");
  await refused(ann.askToCreate({ agentId: "weather", activate: true }));
  const patient = (await accepted(ann.askToCreate({ agentId: "patient", activate: true }))).session;
  expect(await why(music.id)).toEqual([
    "music is paused for phone and waits for phone to end: it comes back by itself,",
    "unless its agent says resume: manual",
    "phone has the floor with priority 90, and does not yield",
    "waiting: patient",
    "paused: music",
    "",
    expect.stringMatching(/^\d\d:\d\d:\d\d {2}music {2}▶ has the floor: it was free \(floor_free\) “.+”$/),
    expect.stringMatching(/^\d\d:\d\d:\d\d {2}music {2}‖ is paused for phone$/),
    "",
    expect.stringMatching(/^If music asked now: it is refused: 20 < 90 \(lower_priority\) “.+$/),
    expect.stringMatching(/.+”$/),
    "It would need priority > 90 and priority ≥ phone's preemption_threshold (none is",
    "set).",
  ]);
  expect((await why(patient.id))[0]).toBe("patient waits for phone to end");
  const floor = await why(music.floorId);
  expect(floor).toContainEqual(expect.stringMatching(/ {2}weather {2}✗ is refused: 30 < 90 \(lower_priority\) /));
  await ann.on(music.id, "pause");
  expect((await why(music.id))[0]).toBe(
    "music is paused by its user: only a resume, or its next message, brings it back",
  );
  for (const line of [...floor, ...(await why(patient.id))]) expect(widthOf(line)).toBeLessThanOrEqual(80);

  const stdout = printedBy(await runHere(["why", patient.id, "--url", shared.url, "--lang", "zh"]));
  expect(stdout.split("\n")).toEqual([
    "patient在等phone结束",
    "phone拥有发言权，优先级 90，且不让位",
    "等待：patient",
    "已暂停：music",
    "",
    expect.stringMatching(/^\d\d:\d\d:\d\d {2}patient {2}· 排队：10 < 90 \(lower_priority\) “Patient/),
    expect.stringMatching(/”$/),
    expect.stringMatching(/ {4}需要 priority > 90 and priority ≥ phone's$/),
    expect.stringMatching(/preemption_threshold \(none is set\)$/),
    "",
    "如果patient现在请求：排队：10 < 90 (lower_priority) “Phone结束后，Patient开始。”",
    "它需要 priority > 90 且 priority ≥ phone 的 preemption_threshold（未设置）。",
    "",
  ]);
  const chinese = await reportWhy(client, { what: music.id, limit: 20, language: "zh" }, Date.now());
  expect(chinese.lines[0]).toBe("music被用户暂停：只有恢复它，或它的下一条消息，才会让它回来");
  for (const line of chinese.lines) expect(widthOf(line)).toBeLessThanOrEqual(80);

  const facts = JSON.parse(printedBy(await runHere(["why", music.id, "--url", shared.url, "--json"])));
  expect(facts).toMatchObject({ session: { id: music.id }, ifAsked: { outcome: "rejected" } });
  const missing = await complaintOf(["why", "none", "--url", shared.url]);
  expect(missing).toMatch(/^interlock: There is no session none at /);
  const wrong = await complaintOf(["why", "a b", "--url", shared.url], 2);
  expect(wrong).toContain("It is a session's id, or a floor: u:<user>");
});

test("arguments that begin with a dash are arguments, and a misspelt option is named", async () => {
  const bob = new E2eClient(shared, shared.newUser("-bob"));
  const { id } = await bob.create("music", { id: shared.newId("-vital") });
  const at = ["--url", shared.url];
  const facts = JSON.parse(printedBy(await runHere(["why", id, "--json", ...at])));
  expect(facts).toMatchObject({ session: { id } });
  expect(printedBy(await runHere(["sessions", "--user", bob.userId, ...at]))).toContain(id);
  const forgotten = printedBy(await runHere(["forget", bob.userId, "--yes", ...at]));
  expect(forgotten).toMatch(new RegExp(`^Deleted: 1 session of ${bob.userId}, `));
  const key = await runHere(["keys", "new", "-bob"]);
  expect([key.code, key.stderr]).toEqual([0, expect.stringContaining('owner: "-bob"')]);
  for (const [words, fault] of [
    [["why", "--jsno", "-vital"], "unknown option '--jsno'"],
    [["why", "-vital", "-other"], "unknown option '-other'"],
    [["status", "-x"], "unknown option '-x'"],
  ] as const) {
    const refused = await runHere([...words, ...at]);
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([2, "", expect.stringContaining(fault)]);
  }
  for (const help of ["-h", "--help"])
    expect(printedBy(await runHere(["why", help]))).toMatch(/^Usage: interlock why /);
});

test("why names what a session is heard beneath, the restriction that silences it, and how the queue is", async () => {
  const external = { kind: "external" };
  const node = await NodeUnderTest.start({
    agents: [
      { name: "music", priority: 20, when_preempted: "duck" },
      { name: "radio", priority: 10, when_blocked: "queue", adapter: external },
      { name: "prompt", priority: 80, beneath: { music: -14 }, adapter: external },
      { name: "phone", priority: 90, adapter: external },
    ],
    catalog: { restrictions: [{ name: "quiet", when: "parked", allow: ["prompt", "phone"] }] },
  });
  onTestFinished(() => node.stop());
  const client = createClient({ baseUrl: node.url });
  const ann = new E2eClient(node, "ann");
  const why = (what: string) => whyOf(client, what);
  const idle = await ann.create("radio");
  expect((await why(idle.id))[0]).toBe("radio does not wait for the floor: it asks when it is activated");
  const music = await ann.hold("music");
  const prompt = await ann.hold("prompt");
  expect((await why(music.id))[0]).toBe("music is heard beneath prompt, 14 dB quieter");
  for (const _ of [1, 2]) await accepted(ann.askToCreate({ agentId: "radio", activate: true }));
  const { queued } = await client.getFloor(music.floorId);
  expect((await why(queued[1]!.id))[0]).toBe("radio waits for prompt to end, with 1 in the queue before it");
  await client.setFlags(music.floorId, { parked: true });
  const silenced = await why(music.id);
  expect(silenced.slice(0, 2).join(" ")).toBe(
    "music is paused because it is not allowed now (quiet): it comes back by itself when that is over",
  );
  expect(silenced).toContain("restricted by: quiet");
  expect(silenced).toContain("It would need parked to be off, or music in quiet's allow.");
  expect((await why(music.floorId))[0]).toBe("prompt has the floor with priority 80");
  // The restrictions of now count, and not those when the music was paused.
  await ann.hold("phone");
  await client.setFlags(music.floorId, {});
  expect((await why(music.id))[0]).toContain("music is paused and waits for phone to end: it comes back by");
  await ann.on(prompt.id, "archive");
  expect((await why(prompt.id))[0]).toBe("prompt has ended: it asks no more");
  const bob = new E2eClient(node, "bob");
  const other = await bob.hold("music");
  await bob.hold("phone");
  await client.setFlags(other.floorId, { parked: true });
  expect((await why(other.id)).join(" ")).toContain("music is paused because it is not allowed now (quiet)");
});

test("why says that a silent session does not come up while its agent is disabled", async () => {
  const phone = { name: "phone", priority: 90 };
  const others = [
    { name: "music", priority: 20 },
    { name: "radio", priority: 10, when_blocked: "queue" },
  ];
  const node = await NodeUnderTest.start({ agents: [phone, ...others], catalog: {} }, onTestFinished);
  const client = createClient({ baseUrl: node.url });
  const ann = new E2eClient(node, "ann");
  const music = await ann.hold("music");
  await ann.hold("phone");
  const { session: radio } = await accepted(ann.askToCreate({ agentId: "radio", activate: true }));
  await node.writeCatalog(JSON.stringify({ agents: [phone, ...others.map((each) => ({ ...each, enabled: false }))] }));
  const why = async (what: string) => (await whyOf(client, what)).join(" ");
  for (const { id, agentId } of [music, radio]) {
    await expect
      .poll(() => why(id))
      .toContain(`${agentId} does not come up: its agent is disabled, or no longer in the catalogue`);
  }
});

testWith(["script", "coreutils"], "Ctrl-C ends prove at once, and leaves the terminal as it was", async () => {
  const command = `trap : INT; stty -g; ${process.execPath} ${CLI} prove --seconds 600; echo "code $?"; stty -g`;
  const env = { ...BARE_ENV, SHELL: "/bin/sh", NO_COLOR: "1" };
  const child = spawn("script", ["-qec", command, "/dev/null"], { cwd: await newFolder(), env });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece) => (text += piece));
  while (!/\d sessions?, \d+ moves/.test(text)) await once(child.stdout, "data");
  child.stdin.write("\u0003");
  await once(child, "close");
  expect(text).toContain("code 130");
  expect(text).not.toContain("\u001b");
  const modes = text.split(/[\r\n]+/).filter((line) => /^[0-9a-f]+(:[0-9a-f]+)+$/.test(line));
  expect(modes).toEqual([modes[0], modes[0]]);
});

test("a node that does not answer, or requires a token, is a sentence and code 1", async () => {
  const keys = await writeTemporary("keys.yaml", keysFile([{ owner: "ann", key: "k" }]), onTestFinished);
  const locked = await NodeUnderTest.start({ settings: { INTERLOCK_AUTH: `keys:${keys}` } }, onTestFinished);
  const refusal = await complaintOf(["why", "u:ann", "--url", locked.url]);
  expect(refusal).toMatch(/requires authentication: set INTERLOCK_T/);
  vi.stubEnv("INTERLOCK_TOKEN", "wrong");
  expect(await complaintOf(["status", "--url", locked.url])).toMatch(
    /does not know the token or key in INTERLOCK_TOKEN: it is wrong, has expired or was withdrawn/,
  );
  vi.stubEnv("INTERLOCK_TOKEN", "k");
  expect(await complaintOf(["status", "--url", locked.url])).toMatch(
    /^interlock: The token or key in INTERLOCK_TOKEN is another user's: .+ an operator's token or key/,
  );
  vi.unstubAllEnvs();
  const nowhere = await complaintOf(["status", "--url", "http://127.0.0.1:9"]);
  expect(nowhere).toMatch(/^interlock: No Interlock node answers at /);
});

test("init --small writes three agents in thirty lines, which check accepts without a warning", async () => {
  const folder = await newFolder();
  expect(await runHere(["init", "--small"], folder)).toMatchObject({ code: 0, stderr: "" });
  const lines = (await readFile(join(folder, "config/agents_config.yaml"), "utf8")).trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(30);
  expect(lines[0]).toBe("# yaml-language-server: $schema=./catalogue.schema.json");
  const checked = await runHere(["check", "--strict"], folder);
  expect([checked.code, checked.stdout]).toEqual([
    0,
    expect.stringMatching(/^config\/agents_config\.yaml: 3 agents, /),
  ]);
});

test("init writes a catalogue that check accepts, and a second one writes nothing", async () => {
  const folder = await newFolder();
  expect(await runHere(["init"], folder)).toMatchObject({ code: 0, stderr: "" });
  const catalogue = await readFile(join(folder, "config/agents_config.yaml"), "utf8");
  expect(catalogue).toMatch(/^# yaml-language-server: \$schema=\.\/catalogue\.schema\.json\n/);
  expect(JSON.parse(await readFile(join(folder, "config/catalogue.schema.json"), "utf8"))).toHaveProperty("properties");
  expect(await readFile(join(folder, ".env.example"), "utf8")).toMatch(
    /^# INTERLOCK_STORE=sqlite:data\/interlock\.db$/m,
  );
  const checked = await runHere(["check"], folder);
  expect([checked.code, checked.stdout]).toEqual([
    0,
    expect.stringMatching(/^config\/agents_config\.yaml: .*no faults/),
  ]);

  await rm(join(folder, ".env.example"));
  await writeFile(join(folder, "config/agents_config.yaml"), "mine");
  const again = await runHere(["init"], folder);
  expect([again.code, again.stdout]).toEqual([1, expect.stringContaining("config/agents_config.yaml")]);
  expect(await readFile(join(folder, "config/agents_config.yaml"), "utf8")).toBe("mine");
  expect(await readdir(folder)).toEqual(["config"]);
});

test("keys new prints a key whose hash is in the file, which stays as it is if it would not be valid", async () => {
  const folder = await newFolder();
  const file = join(folder, "keys.yaml");
  const ann = await runHere(["keys", "new", "ann", "--file", file]);
  const ops = await runHere(["keys", "new", "o: ps", "--operator", "--file", file]);
  const hashed = ({ stdout }: Ending) => createHash("sha256").update(stdout.trim()).digest("hex");
  expect(readKeys(await readFile(file, "utf8"))).toEqual({
    ok: true,
    keys: [
      { owner: "ann", sha256: hashed(ann), operator: false },
      { owner: "o: ps", sha256: hashed(ops), operator: true },
    ],
  });
  expect((await stat(file)).mode & 0o77).toBe(0);
  const shown = await runHere(["keys", "new", "bob"]);
  expect(readKeys(`keys:\n${shown.stderr.split("\n").slice(1).join("\n")}`)).toMatchObject({ ok: true });

  const nobody = await runHere(["keys", "new", ""]);
  expect([nobody.code, nobody.stdout, nobody.stderr]).toEqual([1, "", expect.stringContaining("the owner must be")]);

  await writeFile(file, "keys: []\n");
  const refused = await runHere(["keys", "new", "ann", "--file", file]);
  expect([refused.code, refused.stdout]).toEqual([1, ""]);
  expect(await readFile(file, "utf8")).toBe("keys: []\n");
});

test("a key that cannot be printed is added to no file, and the command says why", async () => {
  const file = join(await newFolder(), "keys.yaml");
  const full = await open("/dev/full", "w");
  onTestFinished(() => full.close());
  const stdio = ["ignore", full.fd, "pipe"] as const;
  const child = spawn(process.execPath, [CLI, "keys", "new", "ann", "--file", file], {
    env: BARE_ENV,
    stdio: [...stdio],
  });
  const { code, stderr } = await endingOf(child);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^interlock: the output cannot be written: ENOSPC.*\n$/)]);
  await expect(stat(file)).rejects.toThrow("ENOENT");
});

test("a backup of a busy store is restored with a new epoch, once no node uses the store", async () => {
  const folder = await newFolder();
  const store = `sqlite:${join(folder, "interlock.db")}`;
  const node = await NodeUnderTest.start({ settings: { INTERLOCK_STORE: store } }, onTestFinished);
  const client = createClient({ baseUrl: node.url });
  const { session, position } = await client.createSession({ userId: "ann", title: "before" });
  const saved = await runHere(["backup", "saved.db", "--store", store], folder);
  expect(saved).toMatchObject({ code: 0, stdout: expect.stringContaining("saved.db has 1 session of") });
  expect((await stat(join(folder, "saved.db"))).mode & 0o77).toBe(0);
  await client.createSession({ userId: "ann", title: "after" });
  const twice = await runHere(["backup", "saved.db", "--store", store], folder);
  expect(twice).toMatchObject({ code: 1, stderr: "interlock: saved.db exists: name a new file\n" });

  const inUse = await runHere(["restore", "saved.db", "--store", store], folder);
  expect([inUse.code, inUse.stderr]).toEqual([1, expect.stringContaining("is in use by another Interlock")]);
  await node.shutDown();
  await writeFile(join(folder, "text.db"), "no database, but long enough to look like one".repeat(99));
  expect(await runHere(["restore", "text.db", "--store", `${store}-new`], folder)).toMatchObject({ code: 1 });
  expect((await readdir(folder)).filter((name) => name.includes("-new"))).toEqual([]);
  const restored = await runHere(["restore", "saved.db", "--store", store], folder);
  expect([restored.code, restored.stdout]).toEqual([
    0,
    expect.stringMatching(/has 1 session of saved\.db; what it replaced is \S+\n$/),
  ]);
  const kept = /replaced is (\S+)\n/.exec(restored.stdout)![1]!;
  const former = new DatabaseSync(kept, { readOnly: true });
  expect(former.prepare("SELECT count(*) AS count FROM sessions").get()).toMatchObject({ count: 2 });
  former.close();

  const next = await NodeUnderTest.start({ settings: { INTERLOCK_STORE: store } }, onTestFinished);
  const found = await createClient({ baseUrl: next.url }).getSession(session.id);
  expect(found.session.title).toBe("before");
  expect(found.position!.split(".")[0]).not.toBe(position!.split(".")[0]);
});

test("forget deletes a user's sessions and refusals from the file, its free pages and its log, after an export", async () => {
  const folder = await newFolder();
  const file = join(folder, "interlock.db");
  const server = await ChildServer.start({ INTERLOCK_STORE: `sqlite:${file}` });
  const client = createClient({ baseUrl: server.url });
  const say = async (userId: string, content: string) => {
    const { session } = await client.createSession({
      userId,
      agentId: "phone_agent",
      title: `${content} title`,
      activate: true,
    });
    await client.send({ type: "chat", sessionId: session.id, content: `${content} message` });
    return session;
  };
  const gone = await say("ann", "zanzibar");
  await client.deleteSession(gone.id);
  const secret = await say("ann", "timbuktu");
  await client.setFlags(secret.floorId, { timbuktu: true });
  await expect(client.createSession({ userId: "ann", agentId: "music_agent", activate: true })).rejects.toThrow();
  const kept = await say("bob", "samarkand");
  const contents = async () => {
    const names = (await readdir(folder)).filter((name) => name.startsWith("interlock.db"));
    return (await Promise.all(names.map((name) => readFile(join(folder, name), "latin1")))).join("");
  };
  for (const word of ["zanzibar", "timbuktu"]) expect(await contents()).toContain(word);
  const asked = await runHere(["forget", "ann", "--url", server.url]);
  expect([asked.code, asked.stderr]).toEqual([1, "interlock: nothing was deleted: confirm with --yes\n"]);

  const done = await runHere(["forget", "ann", "--url", server.url, "--yes", "--export", "ann.jsonl"], folder);
  expect([done.code, done.stdout]).toEqual([0, expect.stringMatching(/^Deleted: 1 session of ann, /)]);
  const lines = (await readFile(join(folder, "ann.jsonl"), "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ type: "session", title: "timbuktu title" }),
      expect.objectContaining({ type: "message", content: "timbuktu message" }),
      expect.objectContaining({ type: "decision", decision: expect.objectContaining({ outcome: "rejected" }) }),
      { type: "complete", sessions: 1 },
    ]),
  );
  expect(await contents()).toContain("samarkand");
  expect(await contents()).not.toMatch(/zanzibar|timbuktu|music_agent/);
  expect((await client.listSessions({ userId: "ann", includeArchived: true })).total).toBe(0);
  expect((await client.getFloor("u:ann")).decisions).toEqual([]);
  expect((await client.getSession(kept.id)).session.title).toBe("samarkand title");
  await server.kill();
});
