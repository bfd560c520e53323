import { afterAll, expect, test } from "vitest";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** Monitors, `wget --spider` and `curl -I` ask with HEAD. */
test.each(["/health", "/ready", "/"])("HEAD %s is answered like GET, without a body", async (path) => {
  const got = await fetch(node.url + path);
  const asked = await fetch(node.url + path, { method: "HEAD" });
  expect(asked.status).toBe(got.status);
  expect(asked.headers.get("content-type")).toBe(got.headers.get("content-type"));
  expect(asked.headers.get("content-length")).toBe(got.headers.get("content-length"));
  await got.text();
  expect(await asked.text()).toBe("");
});

test("other paths refuse HEAD with the methods that they take", async () => {
  const asked = await fetch(`${node.url}/agents`, { method: "HEAD" });
  expect([asked.status, asked.headers.get("allow")]).toEqual([405, "GET"]);
});
