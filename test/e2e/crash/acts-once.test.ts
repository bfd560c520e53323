import { expect, onTestFinished, test } from "vitest";
import { makeDelegatingModels } from "../../support/agents/delegating-models.ts";
import { create, say } from "../../support/clients/node-client.ts";
import { makeInstallation } from "../../support/nodes/child-server.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

test("a tool of a sub-agent's sub-agent that acts in the instant in which its node is killed does not act again", async () => {
  const provider = await startProviderServer();
  onTestFinished(() => provider.close());
  const { agents, mcp_servers, ...models } = await makeDelegatingModels(provider.baseUrl);
  onTestFinished(models.remove);
  provider.replyBy(models.answer);
  const installation = await makeInstallation({ agents, mcp_servers });
  let node = await installation.start();
  await create(node, "s", "chief");
  models.willKill(node.pid);
  await say(node, "s");
  await node.ended;
  node = await installation.start();
  const events = await node.follow("s", ({ type }) => type === "complete");
  expect(models.sent()).toEqual(["person-1"]);
  // A person who reads the log learns what was done.
  const called = events.filter(({ type, data }) => type === "tool_call" && JSON.stringify(data).includes("person-1"));
  expect(called).toHaveLength(1);
  expect(events.find(({ type }) => type === "error")?.data["errorCode"]).toBe("run_lost");
});
