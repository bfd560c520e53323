import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Lists, at the end of a run, every test that passed only after a retry, with the failure of its first try. */
export class RepeatedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const repeated = modules
      .flatMap((module) => [...module.children.allTests()])
      .filter((test) => (test.diagnostic()?.retryCount ?? 0) > 0);
    if (repeated.length === 0) return;
    const lines = repeated.map((test) => `   ${describe(test)}\n`);
    process.stdout.write(`\n REPEATED  tests that failed and ran again: ${repeated.length}\n${lines.join("")}\n`);
  }
}

function describe(test: TestCase): string {
  const { retryCount, flaky } = test.diagnostic()!;
  const tries = `try ${retryCount + 1} ${flaky ? "passed" : "failed too"}`;
  const [failure = ""] = test.result().errors?.[0]?.message.split("\n", 1) ?? [];
  return `${test.module.relativeModuleId} > ${test.fullName} (${tries}; the first: ${failure})`;
}
