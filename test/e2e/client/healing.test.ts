import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { LiveFloor } from "../../../src/client/live/live-floor.ts";
import { LiveFloors } from "../../../src/client/live/live-floors.ts";
import { LiveSession, type SessionLiveView } from "../../../src/client/live/live-session.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { until } from "../../support/clients/live-view.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { freePort } from "../../support/servers/free-port.ts";

/** A node behind a proxy, a client of it, and `replace`: another node with an empty store at the same address. */
async function startReplaced() {
  // A store in memory: the node that replaces this one starts another log.
  const settings = { PORT: String(await freePort()) };
  const before = await NodeUnderTest.start({ settings });
  const proxy = await CuttingProxy.start(before.url);
  const replace = async () => {
    proxy.refuse();
    await before.stop();
    const after = await NodeUnderTest.start({ settings });
    onTestFinished(() => after.stop());
    return after;
  };
  return { before, proxy, replace, client: createClient({ baseUrl: proxy.url }) };
}

test("views whose positions the server has lost read the state again, and drop the lost log", async () => {
  const { before, proxy, replace, client } = await startReplaced();
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

  const after = await replace();
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

test("a live session whose position the server has lost shows the question that waits now, and no earlier question or failure", async () => {
  const { before, proxy, replace, client } = await startReplaced();
  const users = [new E2eClient(before), new E2eClient(before), new E2eClient(before)];
  const [asked, answered, failed] = await Promise.all(
    users.map(async (user) => new LiveSession(client, (await user.hold("general")).id)),
  );
  for (const [index, live] of [asked!, answered!, failed!].entries()) {
    await until(live, ({ status }) => status === "open");
    await accepted(users[index]!.say(live.id, live === failed ? "offline" : "ask"));
  }
  const [old] = (await until(asked!, ({ interactions }) => interactions.length === 1)).interactions;
  await until(answered!, ({ interactions }) => interactions.length === 1);
  await until(failed!, ({ error, status }) => error !== undefined && status === "open");

  const after = await replace();
  for (const [index, { id }] of [asked!, answered!, failed!].entries()) {
    await new E2eClient(after, users[index]!.userId).hold("general", { id, title: "anew" });
  }
  const now = new E2eClient(after);
  const stream = await now.follow(asked!.id);
  await accepted(now.say(asked!.id, "ask"));
  await stream.find("user_question_request");
  proxy.admit();

  const isAnew = ({ session, status }: SessionLiveView) => session?.title === "anew" && status === "open";
  expect((await until(answered!, isAnew)).interactions).toEqual([]);
  expect((await until(failed!, isAnew)).error).toBeUndefined();
  const view = await until(
    asked!,
    (view) => isAnew(view) && view.interactions.some(({ requestId }) => requestId !== old!.requestId),
  );
  expect(view.interactions).toHaveLength(1);
});
