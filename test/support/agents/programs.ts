import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../catalogs/catalog.ts";
import { BARE_ENV } from "./bare-env.ts";
import { gone } from "./processes.ts";
import { testRegistry } from "./test-registry.ts";

const PRINTING = fileURLToPath(new URL("./printing-program.ts", import.meta.url));
const ACP = fileURLToPath(new URL("./acp-program.ts", import.meta.url));

/** A cache of compiled code halves the start time of programs in TypeScript. */
const { PATH: _, ...CACHED } = BARE_ENV;

export interface ProgramSubject {
  readonly agent: Agent;
  /** A marker in the environment of every process that its runs start. */
  readonly tag: string;
  /** The node's log. */
  readonly logged: readonly { readonly facts: object; readonly message: string }[];
  /** End the running programs, as a worker does at shutdown. */
  close(): Promise<void>;
}

/** An agent that is a program, with its own environment. */
export function programSubject(entry: object, adapter: object, env: Record<string, string> = {}): ProgramSubject {
  const tag = `tag-${randomUUID()}`;
  const { set = {}, ...rest } = adapter as { set?: object };
  const catalog = makeCatalog([{ name: "subject", ...entry, adapter: { ...rest, set: { ...set, TEST_TAG: tag } } }]);
  const logged: { facts: object; message: string }[] = [];
  const keep = (facts: object, message: string) => void logged.push({ facts, message });
  const log = { debug: keep, info: keep, warn: keep, error: keep };
  const registry = testRegistry({ catalog: () => catalog, env: { PATH: process.env["PATH"], ...env }, log });
  return {
    agent: registry.find("subject" as AgentId)!,
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
  const subject = programSubject({}, { ...commandAdapter(behaviour), ...adapter }, env);
  onTestFinished(() => subject.close());
  return subject;
}

export function commandAdapter(behaviour: string, ...args: string[]): object {
  const words = ["--no-warnings", PRINTING, behaviour, ...args];
  return { kind: "command", command: process.execPath, args: words, set: CACHED };
}

export function acpAdapter(ability = "resumes", folder?: string): object {
  const args = ["--no-warnings", ACP, ability, ...(folder === undefined ? [] : [folder])];
  return { kind: "acp", profile: "custom", command: process.execPath, args, set: CACHED };
}

/** A coding agent that runs `acp-program.ts`; closed at the end of the test. */
export function talking(adapter: object = acpAdapter(), entry: object = {}, env: Record<string, string> = {}) {
  const subject = programSubject(entry, adapter, env);
  onTestFinished(() => subject.close());
  return subject;
}
