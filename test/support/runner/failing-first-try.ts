import { beforeEach } from "vitest";

// For `TEST_SECOND_TRY=true npx vitest run FILE…`: the first try of each test fails at its end, so that the second one
// runs with everything that the first one left behind.
beforeEach(({ task, onTestFinished }) => {
  if ((task.result?.retryCount ?? 0) > 0) return;
  onTestFinished(() => {
    throw new Error("the first try fails on purpose");
  });
});
