import { appendFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { leftOutLine } from "../programs/programs.ts";

/** As many of the slowest files are listed. */
const SLOWEST = 20;

/**
 * The end of a run: the tests that failed and ran again, with the failure of their first try, which outside CI are to
 * be reported; in CI the slowest files; and a line about the suites that were left out.
 */
export class EndOfRun implements Reporter {
  readonly #isCi: boolean;

  constructor(isCi: boolean) {
    this.#isCi = isCi;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const repeated = tests.filter((test) => (test.diagnostic()?.retryCount ?? 0) > 0);
    if (this.#isCi && repeated.length > 0) {
      const lines = repeated.map((test) => `   ${describe(test)}\n`);
      print(` REPEATED  tests that failed and ran again: ${repeated.length}\n${lines.join("")}`);
      // `.ci/run` has several runs, and names all of these tests at its very end.
      const file = process.env["TEST_REPEATED"];
      if (file !== undefined) appendFileSync(file, repeated.map((test) => `${nameOf(test)}\n`).join(""));
    }
    const late = this.#isCi ? [] : repeated.filter((test) => test.diagnostic()?.flaky);
    for (const test of late) {
      print(` passed at the second try: ${nameOf(test)} (the first: ${firstFailureOf(test)}); please report it`);
    }
    if (this.#isCi) print(` SLOWEST  files, in seconds: tests and hooks, imports\n${slowest(modules).join("")}`);
    const line = leftOutLine(tests.map((test) => test.meta().leftOut).filter((missing) => missing !== undefined));
    if (line !== undefined) print(` LEFT OUT  ${line}\n`);
  }
}

const print = (text: string): void => void process.stdout.write(`\n${text}\n`);

function slowest(modules: readonly TestModule[]): string[] {
  const seconds = (ms: number) => (ms / 1_000).toFixed(1).padStart(7);
  return modules
    .map((module) => ({ id: module.relativeModuleId, ...module.diagnostic() }))
    .sort((one, other) => other.duration + other.collectDuration - one.duration - one.collectDuration)
    .slice(0, SLOWEST)
    .map(({ id, duration, collectDuration }) => `${seconds(duration)}${seconds(collectDuration)}  ${id}\n`);
}

const nameOf = (test: TestCase): string => `${test.module.relativeModuleId} > ${test.fullName}`;

const firstFailureOf = (test: TestCase): string => test.result().errors?.[0]?.message.split("\n", 1)[0] ?? "";

function describe(test: TestCase): string {
  const { retryCount, flaky } = test.diagnostic()!;
  const tries = `try ${retryCount + 1} ${flaky ? "passed" : "failed too"}`;
  return `${nameOf(test)} (${tries}; the first: ${firstFailureOf(test)})`;
}
