import { expect, test } from "vitest";
import { place } from "../../support/nodes/connection-stage.ts";

test("the gateway limits the time that a slow client may take for a request", async () => {
  const { gateway } = await place();
  const { headersTimeout, requestTimeout, keepAliveTimeout } = gateway.app.server;
  // The time limits for the head of a request, for the whole request, and for the pause between requests.
  expect({ headersTimeout, requestTimeout, keepAliveTimeout }).toEqual({
    headersTimeout: 10_000,
    requestTimeout: 60_000,
    keepAliveTimeout: 72_000,
  });
});
