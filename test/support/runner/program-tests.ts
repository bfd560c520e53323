/**
 * Unit tests with processes of their own: they start programs by the dozen, need some that may be missing, measure the
 * memory of their own process, or replace modules for themselves.
 */
export const PROGRAM_TESTS = [
  ...["acp/*", "programs/*", "mcp-*", "reply-memory"].map((name) => `test/unit/agents/${name}.test.ts`),
  "test/unit/bus/message-pieces.test.ts",
  ...["every-floor", "invariants.property"].map((name) => `test/unit/actors/${name}.test.ts`),
  "test/unit/{end-of-run,flakes,own-programs}.test.ts",
  "test/unit/deploy/compose.test.ts",
];
