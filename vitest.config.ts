import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["test/*.test.ts", "test/docs/**/*.test.ts", "test/unit/**/*.test.ts"] },
      },
      { extends: true, test: { name: "contract", include: ["test/contract/**/*.test.ts"] } },
      {
        extends: true,
        test: { name: "simulation", include: ["test/simulation/**/*.test.ts"], testTimeout: 300_000 },
      },
      { extends: true, test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], testTimeout: 60_000 } },
    ],
    // No test asks how long something takes: these only end what hangs, on a machine that is busy too.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
