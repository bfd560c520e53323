import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { CommanderError } from "commander";
import { expect, vi } from "vitest";
import { MISUSED } from "../../../src/cli/command-line.ts";
import { addCompletion } from "../../../src/cli/completion.ts";
import { createProgram } from "../../../src/cli/program.ts";

/** How a command ended, and what it printed. */
export interface Ending {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** How a process ends, and what it prints until then. */
export async function endingOf(child: ChildProcess): Promise<Ending> {
  const printed = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text) => (printed.stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text) => (printed.stderr += text));
  const [code] = await once(child, "close");
  return { code, ...printed };
}

/** What a command printed, which has to have succeeded without a word on stderr. */
export function printedBy({ code, stdout, stderr }: Ending): string {
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

/**
 * What `main.ts` does with these words, in this process: for commands that need no other.
 * @param cwd the working directory. Default: this process's.
 */
export async function runHere(words: readonly string[], cwd = process.cwd()): Promise<Ending> {
  const printed = { stdout: "", stderr: "" };
  const write = (name: keyof typeof printed) => (text: unknown) => {
    printed[name] += String(text);
    return true;
  };
  const { argv, exitCode } = process;
  const before = process.cwd();
  process.argv = [process.execPath, "interlock", ...words];
  process.exitCode = undefined;
  process.chdir(cwd);
  const spies = [
    vi.spyOn(process.stdout, "write").mockImplementation(write("stdout")),
    vi.spyOn(process.stderr, "write").mockImplementation(write("stderr")),
    vi.spyOn(console, "log").mockImplementation((text) => void write("stdout")(`${text}\n`)),
  ];
  try {
    const program = createProgram({ onError: () => {} });
    addCompletion(program);
    await program.parseAsync();
    return { code: Number(process.exitCode ?? 0), ...printed };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { code: error.exitCode === 0 ? 0 : MISUSED, ...printed };
  } finally {
    Object.assign(process, { argv, exitCode });
    process.chdir(before);
    for (const spy of spies) spy.mockRestore();
  }
}
