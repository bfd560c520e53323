import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { BARE_ENV } from "../../support/agents/bare-env.ts";
import { gone, running } from "../../support/agents/processes.ts";
import type { StreamEvent } from "../../support/clients/frame-reader.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { SENTENCE, startModelServer } from "../../support/servers/model-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const BIN = fileURLToPath(new URL("../../real-agents/node_modules/.bin/", import.meta.url));
/** These programs take seconds to start on a busy machine. */
const PATIENCE_MS = 180_000;

export interface RealAgent {
  readonly profile: "codex" | "kimi";
  /** Its file in the package of real agents. */
  readonly command: string;
  /** Its settings, in its own home folder. */
  config(baseUrl: string): string;
  /** The variable that names its home folder. */
  readonly homeVariable: string;
  readonly env: Readonly<Record<string, string>>;
  /** The outcome of a run whose model's provider answers 429. */
  readonly limited: RegExp;
}

/** A node with the agent, in a folder that outlives the node, and a model that answers the agent. */
async function openStage({ profile, command, config, homeVariable, env }: RealAgent) {
  const model = await startModelServer();
  onTestFinished(() => model.close());
  const { folder, remove } = await makeFolder();
  onTestFinished(remove);
  const [home, workFolder] = [join(folder, "home"), join(folder, "work")];
  for (const each of [home, workFolder]) mkdirSync(each);
  writeFileSync(join(home, "config.toml"), config(model.baseUrl));
  const tag = `tag-${randomUUID()}`;
  const adapter = {
    kind: "acp",
    profile,
    command: join(BIN, command),
    cwd: workFolder,
    env: Object.keys(env),
    set: { ...BARE_ENV, HOME: home, [homeVariable]: home, TEST_TAG: tag },
    start_timeout: "2m",
  };
  const agents = [{ name: "coder", tools: [{ name: "clock", confirm: true }], adapter }];
  const installation = await makeInstallation({ agents }, env);
  let server = await installation.start();
  await server.post("/session/create", { id: "s", activate: true });
  const reader = await new SessionReader(`${server.url}/session/s/events`).open();
  const events = () => reader.transcript.logs.get("s") ?? [];
  /** The number of the session's events that were read. */
  let seen = 0;

  /** The next event of a type, after those that were read. */
  async function next(
    ...types: string[]
  ): Promise<{ type: string; requestId?: string; data: Record<string, unknown> }> {
    const find = () => events().findIndex(({ type }, index) => index >= seen && types.includes(type));
    await reader.until(() => find() >= 0);
    const index = find();
    seen = index + 1;
    return events()[index] as never;
  }
  const post = (message: object) => server.post("/message", { sessionId: "s", ...message });
  const decide = (requestId: string | undefined, response: string) =>
    post({ type: "tool_confirmation_response", requestId, response });

  async function say(content: string): Promise<void> {
    expect((await post({ type: "chat", content })).status).toBe(200);
  }

  return {
    model,
    workFolder,
    tag,
    next,
    say,

    /** A turn without a question. */
    async turn(content: string): Promise<void> {
      await say(content);
      await next("complete");
    },

    async answer(response: string): Promise<Record<string, unknown>> {
      const { requestId, data } = await next("tool_confirmation_request");
      await decide(requestId, response);
      return data["toolCall"] as Record<string, unknown>;
    },

    /**
     * Answer every request of a turn: those for a tool of Interlock, and the agent's requests for permission. @returns
     * its events
     */
    async answerAll(ofClock: string): Promise<StreamEvent[]> {
      const from = seen;
      for (;;) {
        const { type, requestId, data } = await next("tool_confirmation_request", "complete");
        if (type === "complete") return events().slice(from);
        const isClock = (data["toolCall"] as { function: { name: string } }).function.name === "clock";
        await decide(requestId, isClock ? ofClock : "approve");
      }
    },

    abort: () => post({ type: "abort" }),

    /** SIGKILL, and another node in the same folder. */
    async killAndRestart(): Promise<void> {
      await server.kill();
      await gone(tag);
      server = await installation.start();
      reader.moveTo(server.url);
      await reader.open();
    },

    /** The agent's own id of the conversation. */
    async conversation(): Promise<string | undefined> {
      const { body } = await server.ask("GET", "/session/s");
      return (body as unknown as { session: { agentSessions: Record<string, string> } }).session.agentSessions["coder"];
    },

    /** The last message. */
    async reply(): Promise<string> {
      const { body } = await server.ask("GET", "/session/s/messages");
      return body.messages.at(-1)!.content;
    },
  };
}

/** The contract of coding agents, with a real one. */
export function describeRealAgent(agent: RealAgent): void {
  const { profile, limited } = agent;
  describeWith(
    ["realAgents"],
    `a real ${profile}`,
    () => {
      test("a real agent answers a turn, and leaves no process behind", async () => {
        const stage = await openStage(agent);
        await stage.turn("hello");
        expect(await stage.reply()).toBe(SENTENCE);
        expect(await stage.conversation()).toMatch(/./);
        await gone(stage.tag);
      });

      test("a real agent uses a tool that the user allows, and no tool that the user refuses", async () => {
        const stage = await openStage(agent);
        await stage.say("RUN echo allowed > allowed.txt");
        const call = await stage.answer("approve");
        expect(JSON.stringify(call)).toContain("echo allowed > allowed.txt");
        expect((await stage.next("tool_result")).data).toMatchObject({ status: "success" });
        await stage.next("complete");
        expect(existsSync(join(stage.workFolder, "allowed.txt"))).toBe(true);

        await stage.say("RUN touch refused.txt");
        await stage.answer("reject");
        expect((await stage.next("tool_result")).data).toMatchObject({ status: "error" });
        await stage.next("complete");
        expect(existsSync(join(stage.workFolder, "refused.txt"))).toBe(false);
      });

      test("a real agent calls a tool of Interlock with the user's consent", async () => {
        const stage = await openStage(agent);
        const call = 'CALL clock {"timezone":"Asia/Shanghai"}';
        const resultOf = (events: readonly StreamEvent[]) =>
          events.find(({ type, data }) => type === "tool_result" && data["toolName"] === "clock")?.data;
        await stage.say(call);
        const result = resultOf(await stage.answerAll("approve"));
        expect(result).toMatchObject({ status: "success", content: expect.stringContaining("Asia/Shanghai") });
        expect(await stage.reply()).toMatch(/The tool said: .*Asia\/Shanghai/s);

        await stage.say(call);
        expect(resultOf(await stage.answerAll("reject"))).toMatchObject({ status: "error" });
        expect(await stage.reply()).toMatch(/The tool said: .*reject/s);
        await gone(stage.tag);
      });

      test("a real agent that is aborted in the middle of a tool leaves no process, and takes the next turn", async () => {
        const stage = await openStage(agent);
        const word = `word-${randomUUID()}`;
        await stage.say(`RUN WORD=${word} sleep 3600`);
        await stage.answer("approve");
        await running(word, 1);
        await stage.abort();
        await gone(word);
        await gone(stage.tag);
        await stage.next("complete");
        await stage.turn("hello");
        expect(await stage.reply()).toBe(SENTENCE);
      });

      test("a real agent continues with its conversation after its worker was killed in the middle of a tool", async () => {
        const stage = await openStage(agent);
        await stage.turn("Remember the word xylophone.");
        const before = await stage.conversation();
        const word = `word-${randomUUID()}`;
        await stage.say(`RUN WORD=${word} sleep 3600`);
        await stage.answer("approve");
        await running(word, 1);
        await stage.killAndRestart();
        await gone(word);
        // The interrupted run is not started again, because it had used a tool.
        expect((await stage.next("error")).data).toMatchObject({ errorCode: "run_lost" });
        await stage.next("complete");
        // If the agent was killed before it kept its model's answer, it sends the interrupted message with this one.
        await stage.turn("NEVER MIND: hello again");
        expect([await stage.conversation(), await stage.reply()]).toEqual([before, SENTENCE]);
        expect(stage.model.requests.findLast((request) => request.includes("hello again"))).toContain("xylophone");
      });

      test("a real agent whose model's provider answers 429 fails with the reason", async () => {
        const stage = await openStage(agent);
        await stage.say("LIMITED");
        const { data } = await stage.next("error");
        expect(data["errorCode"]).toMatch(limited);
        await gone(stage.tag);
      });
    },
    PATIENCE_MS,
  );
}
