import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { LiveFloor } from "../../../src/client/live/live-floor.ts";
import { LiveFloors } from "../../../src/client/live/live-floors.ts";
import { LiveSession } from "../../../src/client/live/live-session.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { until } from "../../support/clients/live-view.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { freePort } from "../../support/servers/free-port.ts";

test("views whose positions the server has lost read the state again, and drop the lost log", async () => {
  // A store in memory: the node that replaces this one starts another log.
  const settings = { PORT: String(await freePort()) };
  const before = await NodeUnderTest.start({ settings });
  const proxy = await CuttingProxy.start(before.url);
  const client = createClient({ baseUrl: proxy.url });
  const ann = new E2eClient(before);
  const { id, floorId } = await ann.hold("general");
  await ann.talk(id, "hello");
  const gone = await ann.create("music");
  await ann.on(gone.id, "activate");
  const session = new LiveSession(client, id);
  const floor = new LiveFloor(client, floorId);
  const floors = new LiveFloors(client);
  await until(session, ({ messages, status }) => messages.length === 2 && status === "open");
  await until(floor, (view) => view.floor?.holder?.id === id && view.decisions.length === 2 && view.status === "open");
  await until(floors, (view) => view.floors.some((each) => each.floorId === floorId));
  const other = new E2eClient(before, "somebody-else");
  const left = (await other.hold("general")).floorId;
  await until(floors, (view) => view.floors.some((each) => each.floorId === left));

  proxy.refuse();
  await before.stop();
  const after = await NodeUnderTest.start({ settings });
  onTestFinished(() => after.stop());
  const again = new E2eClient(after, ann.userId);
  await again.hold("general", { id, title: "anew" });
  await again.talk(id, "nod");
  proxy.admit();

  const healed = await until(session, ({ messages }) => messages.some(({ content }) => content === "Yes."));
  expect(healed.messages.map(({ content }) => content)).toEqual(["nod", "Yes."]);
  expect(healed.session?.title).toBe("anew");
  const { decisions } = await until(floor, (view) => view.decisions.length === 1);
  expect(decisions[0]).toMatchObject({ outcome: "granted", reason: "floor_free" });
  const all = await until(floors, (view) => !view.floors.some((each) => each.floorId === left));
  expect(all.floors.map((each) => each.floorId)).toContain(floorId);
  await again.talk(id, "hello");
  await until(session, ({ messages }) => messages.at(-1)?.content === "Hello there.");
});
