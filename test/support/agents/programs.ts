import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { BARE_ENV } from "./bare-env.ts";
import { gone } from "./processes.ts";
import { subjectOf } from "./test-registry.ts";

const PRINTING = fileURLToPath(new URL("./printing-program.ts", import.meta.url));
const ACP = fileURLToPath(new URL("./acp-program.ts", import.meta.url));

/** A cache of compiled code halves the start time of programs in TypeScript. */
const { PATH: _, ...CACHED } = BARE_ENV;

interface ProgramSubject {
  readonly agent: Agent;
  /** A marker in the environment of every process that its runs start. */
  readonly tag: string;
  /** The node's log. */
  readonly logged: readonly { readonly facts: object; readonly message: string }[];
  /** End the running programs, as a worker does at shutdown. */
  close(): Promise<void>;
}

/** An agent that is a program, with its own environment, and possibly with other agents and another clock. */
export function programSubject(
  entry: object,
  adapter: object,
  env: Record<string, string> = {},
  more: Pick<NonNullable<Parameters<typeof subjectOf>[1]>, "others" | "clock"> = {},
): ProgramSubject {
  const tag = `tag-${randomUUID()}`;
  const { set = {}, ...rest } = adapter as { set?: object };
  const logged: { facts: object; message: string }[] = [];
  const keep = (facts: object, message: string) => void logged.push({ facts, message });
  const log = { debug: keep, info: keep, warn: keep, error: keep };
  const tagged = { ...entry, adapter: { ...rest, set: { ...set, TEST_TAG: tag } } };
  const { agent, registry } = subjectOf(tagged, { env: { PATH: process.env["PATH"], ...env }, log, ...more });
  return {
    agent,
    tag,
    logged,
    async close() {
      await registry.close();
      await gone(tag);
    },
  };
}

/** An agent of the command adapter that runs `printing-program.ts`; closed at the end of the test. */
export function printing(behaviour: string, adapter: object = {}, env: Record<string, string> = {}): ProgramSubject {
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
