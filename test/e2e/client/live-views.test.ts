import { afterAll, describe, expect, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { LiveFloor } from "../../../src/client/live/live-floor.ts";
import { LiveFloors } from "../../../src/client/live/live-floors.ts";
import { LiveSession } from "../../../src/client/live/live-session.ts";
import { LiveViews } from "../../../src/client/live/live-views.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { until } from "../../support/clients/live-view.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { PLAYERS } from "../../support/nodes/players.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());
const client = createClient({ baseUrl: node.url });

describe("a live session", () => {
  test("a live session begins with the earlier messages, and shows each answer completely", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("general");
    await ann.talk(id, "hello");
    const live = new LiveSession(client, id);
    const view = await until(live, ({ messages }) => messages.length === 2);
    expect(view.messages.map(({ role, isStreaming }) => [role, isStreaming])).toEqual([
      ["user", false],
      ["assistant", false],
    ]);
    await live.send("hello");
    const later = await until(live, ({ messages, session }) => messages.length === 4 && session?.activity === "idle");
    const stored = await ann.messages(id);
    expect(later.messages.map(({ content }) => content)).toEqual(stored.map(({ content }) => content));
  });

  test("a live session shows a pending question until it is answered, also if it opens later; it loses a withdrawn message, keeps the question of the run, and sees a waiting message begin", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("stacker");
    const stream = await ann.follow(id);
    await accepted(ann.say(id, "ask"));
    await stream.find("user_question_request");
    const live = new LiveSession(client, id);
    await until(live, ({ interactions }) => interactions.length === 1);
    await accepted(ann.say(id, "hello"));
    await accepted(ann.say(id, "nod"));
    const { messages } = await until(live, ({ messages }) => messages.length === 3);
    expect(messages.map(({ status }) => status)).toEqual(["success", "queued", "queued"]);
    await client.withdrawMessage(id, messages[1]!.id);
    const later = await until(live, ({ messages }) => messages.length === 2);
    expect(later.messages.map(({ content }) => content)).toEqual(["ask", "nod"]);
    expect(later.interactions).toHaveLength(1);
    const { requestId } = later.interactions[0]!;
    await accepted(ann.send({ type: "user_question_response", sessionId: id, requestId, response: "a" }));
    const begun = ({ content, status }: { content: string; status: string }) =>
      content === "nod" && status === "success";
    await until(live, ({ messages }) => messages.some(begun));
    await until(live, (view) => view.interactions.length === 0 && view.session?.activity === "idle");
  });

  test("a live session shows of each message what the server keeps of it when the session ends while turns wait", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("stacker");
    const live = new LiveSession(client, id);
    await until(live, ({ status }) => status === "open");
    for (const content of ["ask", "hello", "nod"]) await accepted(ann.say(id, content));
    await until(live, ({ interactions, messages }) => interactions.length === 1 && messages.length === 3);
    await accepted(ann.on(id, "archive"));
    const { messages } = await until(live, ({ status }) => status === "closed");
    const shown = ({ content, status }: { content: string; status: string }) => `${content} ${status}`;
    expect(messages.map(shown)).toEqual(["ask success", "hello interrupted", "nod interrupted"]);
    expect((await ann.messages(id)).map(shown)).toEqual(messages.map(shown));
  });

  test("a live session follows its session while it is paused, and ends with it", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.hold("general");
    const live = new LiveSession(client, id);
    await until(live, ({ status }) => status === "open");
    await ann.hold("phone");
    const paused = await until(live, ({ session }) => session?.state === "paused" && session.pausedBy !== undefined);
    expect(paused.session).toMatchObject({ pausedBy: "preemption" });
    await accepted(ann.on(id, "archive"));
    const { session } = await until(live, ({ status }) => status === "closed");
    expect(session?.state).toBe("archived");
  });

  test("a live session continues after a cut without losing or repeating text", async () => {
    const proxy = await CuttingProxy.start(node.url);
    const ann = new E2eClient(node);
    const { id } = await ann.hold("general");
    const live = new LiveSession(createClient({ baseUrl: proxy.url }), id);
    await until(live, ({ status }) => status === "open");
    proxy.refuse();
    await until(live, ({ status }) => status === "waiting");
    await ann.talk(id, "hello");
    proxy.admit();
    const { messages } = await until(live, (view) => view.messages.length === 2 && view.status === "open");
    expect(messages.map(({ content }) => content)).toEqual((await ann.messages(id)).map(({ content }) => content));
  });

  test("a live session that does not exist is refused with a reason", async () => {
    const live = new LiveSession(client, "no-such-session");
    const { failure } = await until(live, ({ status }) => status === "refused");
    expect(failure?.code).toBe("session_not_found");
  });
});

describe("a live floor", () => {
  test("a live floor shows the holder, the paused sessions, and why", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const live = new LiveFloor(client, music.floorId);
    await until(live, ({ floor }) => floor?.holder?.id === music.id);
    const phone = await ann.hold("phone");
    const view = await until(live, ({ floor }) => floor?.holder?.id === phone.id);
    expect(view.floor?.paused.map(({ id }) => id)).toEqual([music.id]);
    expect(view.decisions.at(-1)).toMatchObject({ reason: "preempted" });
  });

  test("a live floor follows titles, and the position of messages, which its events do not have", async () => {
    const ann = new E2eClient(node);
    const { id, floorId } = await ann.hold("stacker");
    await accepted(ann.say(id, "ask"));
    const live = new LiveFloor(client, floorId);
    const before = await until(live, ({ status, floor }) => status === "open" && floor?.holder?.activity === "waiting");
    await client.renameSession(id, "Songs for the road");
    await until(live, ({ floor }) => floor?.holder?.title === "Songs for the road");
    await accepted(ann.say(id, "and then another one"));
    const { position } = await client.getFloor(floorId);
    const view = await until(live, (view) => view.position === position);
    expect(view.events).toEqual(before.events);
  });

  test("a live list has all floors", async () => {
    const ann = new E2eClient(node);
    const live = new LiveFloors(client);
    const { id, floorId } = await ann.hold("music");
    const has = (state: string) => (view: typeof live.view) =>
      view.floors.some((floor) => floor.floorId === floorId && floor.state === state);
    await until(live, has("held"));
    await accepted(ann.on(id, "archive"));
    await until(live, has("idle"));
  });
});

describe("a participant's view", async () => {
  const players = await NodeUnderTest.start({ agents: PLAYERS });
  afterAll(() => players.stop());

  test("a participant's view knows the lease of an agent that its session is switched to", async () => {
    const ann = new E2eClient(players);
    const { id } = await ann.hold("unleased");
    const views = new LiveViews(createClient({ baseUrl: players.url }));
    await until(views.participant(id), ({ status }) => status === "open");
    await accepted(ann.send({ type: "switch_agent", sessionId: id, agentId: "slow_music" }));
    await until(views.participant(id), ({ session }) => session?.leaseMs === 3_600_000);
  });

  test("a participant's view that is restarted before its former stream has ended renews the lease", async () => {
    const ann = new E2eClient(players);
    const { id } = await ann.hold("unleased");
    const heartbeat = Promise.withResolvers<void>();
    const client = createClient({
      baseUrl: players.url,
      fetch: (input, init) => {
        if (String(init?.body).includes('"heartbeat"')) heartbeat.resolve();
        return fetch(input, init);
      },
    });
    const live = new LiveSession(client, id, { isParticipant: true });
    await until(live, ({ status }) => status === "open");
    live.suspend();
    live.restart();
    await until(live, ({ status }) => status === "open");
    await accepted(ann.send({ type: "switch_agent", sessionId: id, agentId: "slow_music" }));
    await heartbeat.promise;
  });

  test("a participant's view knows the lease although the session changed again while it was read", async () => {
    const ann = new E2eClient(players);
    const { id } = await ann.create("slow_music");
    const held = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    let isHeld = true;
    const client = createClient({
      baseUrl: players.url,
      fetch: async (input, init) => {
        const answer = await fetch(input, init);
        if (!String(input).endsWith(`/session/${id}`) || !isHeld) return answer;
        isHeld = false;
        asked.resolve();
        await held.promise;
        return answer;
      },
    });
    const live = new LiveSession(client, id, { isParticipant: true });
    await until(live, ({ status }) => status === "open");
    await accepted(ann.on(id, "activate"));
    await asked.promise;
    await ann.hold("prompt");
    await until(live, ({ session }) => session?.state === "ducked");
    held.resolve();
    const { session } = await until(live, ({ session }) => session?.leaseMs === 3_600_000);
    expect(session).toMatchObject({ state: "ducked" });
  });

  test("a participant's view renews its lease while the stream reconnects, and also on a hidden page", async () => {
    const proxy = await CuttingProxy.start(players.url);
    const [ann, bob] = [new E2eClient(players), new E2eClient(players)];
    const { id } = await ann.hold("music");
    const views = new LiveViews(createClient({ baseUrl: proxy.url }));
    await until(views.participant(id), ({ status }) => status === "open");
    views.suspend();
    proxy.cut();
    for (let dead = 0; dead < 2; dead += 1) {
      const other = await bob.hold("music");
      await (await bob.follow(other.id)).findState(other.id, "paused");
      await accepted(bob.on(other.id, "archive"));
    }
    expect(await ann.see(id)).toMatchObject({ state: "active" });
    // The session lapses when its program ends. The program learns of it when it resumes.
    const stream = await ann.follow(id);
    views.participant(id).suspend();
    await stream.findState(id, "paused");
    views.participant(id).restart();
    await until(views.participant(id), ({ session, status }) => status === "open" && session?.state === "paused");
    await accepted(ann.on(id, "resume"));
    await until(views.participant(id), ({ session }) => session?.leaseMs === 2_000);
    const other = await bob.hold("music");
    await (await bob.follow(other.id)).findState(other.id, "paused");
    expect(await ann.see(id)).toMatchObject({ state: "active" });
  });
});
