import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { createAcpAgent } from "../../../src/agents/acp/acp-agent.ts";
import { createCommandAgent } from "../../../src/agents/command/command-agent.ts";
import { Supervisor } from "../../../src/agents/process/supervisor.ts";
import { Semaphore } from "../../../src/agents/semaphore.ts";
import { createDelegate } from "../../../src/agents/sub-agent.ts";
import { ToolServers } from "../../../src/agents/tools/tool-server.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { makeCatalog } from "../catalogs/catalog.ts";
import { BARE_ENV } from "./bare-env.ts";
import { gone } from "./processes.ts";
import { testRegistry } from "./test-registry.ts";

const PRINTING = fileURLToPath(new URL("./printing-program.ts", import.meta.url));
const ACP = fileURLToPath(new URL("./acp-program.ts", import.meta.url));

/** A cache of compiled code halves the start time of programs in TypeScript. */
export const { PATH: _, ...CACHED } = BARE_ENV;

/**
 * The programs of all tests share one, because each starts a watchdog. It ends what is left when this process ends. Its
 * grace periods are shorter than a node's, because many of these programs end only when they are killed.
 */
const supervisor = new Supervisor({ clock: new SystemClock(), graces: { inputMs: 500, termMs: 1_000 } });

/** An agent that is a program, with its own environment, and possibly with other agents and another clock. */
export function programSubject(
  entry: object,
  adapter: object,
  env: Record<string, string> = {},
  { others = [], clock = new SystemClock() }: { others?: object[]; clock?: Clock } = {},
) {
  const tag = `tag-${randomUUID()}`;
  const { set = {}, ...rest } = adapter as { set?: object };
  const tagged = { name: "subject", ...entry, adapter: { ...rest, set: { ...set, TEST_TAG: tag } } };
  const made = makeCatalog([tagged, ...others.map((other) => ({ ...other }))]);
  const catalog = () => made;
  const subject = made.agents.get("subject" as AgentId)!;
  const logged: { facts: object; message: string }[] = [];
  const keep = (facts: object, message: string) => void logged.push({ facts, message });
  const log = { debug: keep, info: keep, warn: keep, error: keep };
  const all = { PATH: process.env["PATH"], ...env };
  const programs = () => ({ supervisor, clock, env: all, permits: new Semaphore(1), log });
  const registry = testRegistry({ catalog, env: all });
  const toolServers = new ToolServers(clock);
  const onFault = () => {};
  const delegate = createDelegate(subject, { catalog, find: registry.find, onFault });
  const own = { programs, tools: { catalog, programs, delegate }, toolServers, onFault };
  if (subject.adapter.kind !== "acp" && subject.adapter.kind !== "command") throw new Error("it is no program");
  return {
    agent:
      subject.adapter.kind === "acp"
        ? createAcpAgent(subject, subject.adapter, own)
        : createCommandAgent(subject, subject.adapter, programs),
    /** A marker in the environment of every process that its runs start. */
    tag,
    /** The node's log. */
    logged,
    async close() {
      await Promise.all([registry.close(), toolServers.close()]);
      await gone(tag);
    },
  };
}

/** An agent of the command adapter that runs `printing-program.ts`; closed at the end of the test. */
export function printing(behaviour: string, adapter: object = {}, env: Record<string, string> = {}) {
  return talking({ ...commandAdapter(behaviour), ...adapter }, {}, env);
}

export function commandAdapter(behaviour: string, ...args: string[]): object {
  const words = ["--no-warnings", PRINTING, behaviour, ...args];
  return { kind: "command", command: process.execPath, args: words, set: CACHED };
}

export function acpAdapter(ability = "resumes", folder?: string): object {
  const args = ["--no-warnings", ACP, ability, ...(folder === undefined ? [] : [folder])];
  return { kind: "acp", profile: "custom", command: process.execPath, args, set: CACHED };
}

/** A program, by default a coding agent that runs `acp-program.ts`; closed at the end of the test. */
export function talking(
  adapter: object = acpAdapter(),
  entry: object = {},
  ...rest: [env?: Record<string, string>, more?: Parameters<typeof programSubject>[3]]
) {
  const subject = programSubject(entry, adapter, ...rest);
  onTestFinished(() => subject.close());
  return subject;
}
