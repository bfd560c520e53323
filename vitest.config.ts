import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Programs that tests start, and threads of the store, find their code compiled. Node.js compares it with the source.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/compile", import.meta.url));

/** The simulation is long and computes without a pause: it begins first, beside tests that wait for real processes. */
class SimulationFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isSimulation = ({ moduleId }: TestSpecification) => moduleId.endsWith("/simulation.test.ts");
    const sorted = await super.sort(files);
    return [...sorted.filter(isSimulation), ...sorted.filter((file) => !isSimulation(file))];
  }
}

/** Tests that start real processes get another try on a shared CI machine. A fault that stays fails every try. */
const retry = process.env["CI"] === "true" ? 2 : 0;

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["test/*.test.ts", "test/docs/**/*.test.ts", "test/unit/**/*.test.ts"] },
      },
      { extends: true, test: { name: "contract", include: ["test/contract/**/*.test.ts"], retry } },
      {
        extends: true,
        test: { name: "simulation", include: ["test/simulation/**/*.test.ts"], testTimeout: 300_000 },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts", "test/faults/**/*.test.ts"],
          testTimeout: 60_000,
          retry,
        },
      },
    ],
    // No test asks how long something takes: these only end what hangs, on a machine that is busy too.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    sequence: { sequencer: SimulationFirst },
    // One more than the cores of the machines that check: many tests wait for real processes.
    maxWorkers: 3,
  },
});
