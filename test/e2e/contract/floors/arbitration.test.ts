import { afterAll, describe, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused, transitionsOf } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

/** The table of cases of docs/use/arbitration.md, over HTTP. */

const node = await NodeUnderTest.start();
const lenient = await NodeUnderTest.start({
  agents: [
    ...E2E_AGENTS.filter(({ name }) => name !== "navigation"),
    scripted("navigation", {
      priority: 80,
      interruptible: false,
      preemption_threshold: 90,
      description: "导航",
      messages: { rejected: "导航中，暂时无法{challenger}", preempted: "{holder.description} → {challenger}" },
    }),
    scripted("bilingual", {
      priority: 40,
      messages: {
        granted: { en: "{challenger} begins.", zh: "{challenger}开始" },
        resumed: { en: "{challenger} goes on.", zh: "{challenger}继续" },
        rejected: { en: "Wait.", zh: "请稍等" },
      },
    }),
    scripted("byhand", { priority: 20, resume: "manual" }),
    scripted("stubborn", { priority: 50, interruptible: false }),
  ],
  catalog: { default_agent: "general", policy: { ties: "newest", max_paused: 2, max_queued: 1 } },
});
afterAll(() => Promise.all([node.stop(), lenient.stop()]));

const start = (ann: E2eClient, agentId: string) => ann.askToCreate({ agentId, activate: true });

test("a sentence is said in the language of the session, which is by default the one that its request prefers", async () => {
  const post = async (path: string, body: object, language?: string) => {
    const headers = { "Content-Type": "application/json", ...(language && { "Accept-Language": language }) };
    const answer = await fetch(lenient.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await answer.json()) as { decision: { say: string }; session: { id: string; locale?: string } };
  };
  const create = (userId: string, more: object, language?: string) =>
    post("/session/create", { agentId: "bilingual", userId, activate: true, ...more }, language);
  const sayings: [more: object, language: string | undefined, say: string, locale: string | undefined][] = [
    [{}, undefined, "Bilingual begins.", undefined],
    [{}, "zh-CN,zh;q=0.9,en;q=0.8", "Bilingual开始", "zh-CN"],
    [{}, "fr", "Bilingual begins.", "fr"],
    [{ locale: "zh" }, "en", "Bilingual开始", "zh"],
  ];
  for (const [index, [more, language, say, locale]] of sayings.entries()) {
    const { decision, session } = await create(`speaker-${index}`, more, language);
    expect([decision.say, session.locale]).toEqual([say, locale]);
    expect((await post(`/floor/u:speaker-${index}/what-if`, { agentId: "music" }, "zh")).decision.say).toBe("请稍等");
  }
  // The language stays with the session, whatever the request that makes it speak again prefers.
  const { session } = await create("speaker-5", { locale: "zh" });
  await post(`/session/${session.id}/pause`, {});
  expect((await post(`/session/${session.id}/resume`, {}, "en")).decision.say).toBe("Bilingual开始");
  const first = { type: "chat", agentId: "bilingual", userId: "speaker-6", content: "hello" };
  const { sessionId } = (await post("/message", first, "zh")) as unknown as { sessionId: string };
  const viewed = await (await fetch(`${lenient.url}/session/${sessionId}`)).json();
  expect((viewed as { session: object }).session).toMatchObject({ locale: "zh" });
});

describe("a request for the floor", () => {
  test("a request for the floor on an idle floor is granted", async () => {
    const { session, decision } = await accepted(start(new E2eClient(node), "music"));
    expect(session.state).toBe("active");
    expect(decision).toMatchObject({ outcome: "granted", reason: "floor_free" });
  });

  test("a request of a call pauses the music first, then the call is active: in this order on the floor", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const stream = await node.stream(`${ann.floorPath}/events`);
    await stream.findState(music.id, "active.idle");
    const { session: phone, decision } = await accepted(start(ann, "phone"));
    expect(decision).toMatchObject({ outcome: "granted", reason: "preempted", holder: { sessionId: music.id } });
    const events = await stream.until(({ sessionId, type }) => type === "session_transition" && sessionId === phone.id);
    expect(events.map(({ type, sessionId }) => [type, sessionId])).toEqual([
      ["session_created", phone.id],
      ["arbitration", phone.id],
      ["session_transition", music.id],
      ["session_transition", phone.id],
    ]);
    expect(events[2]!.data).toEqual({
      from: "active.idle",
      to: "paused",
      event: "preempt",
      reason: "preempted",
      by: { sessionId: phone.id, agentId: "phone" },
    });
    expect(await ann.see(music.id)).toMatchObject({ state: "paused", pausedBy: "preemption" });
  });

  test("a request of small talk during navigation is rejected for its lower priority, not because navigation is uninterruptible", async () => {
    const ann = new E2eClient(node);
    await ann.hold("navigation");
    expect((await refused(start(ann, "chat"))).decision).toMatchObject({ reason: "lower_priority", rule: 5 });
  });

  test("a request of a call during navigation is rejected, and adds no event to navigation's log", async () => {
    const ann = new E2eClient(node);
    const navigation = await ann.hold("navigation");
    const before = await ann.log(navigation.id);
    const { decision } = await refused(start(ann, "phone"));
    expect(decision).toMatchObject({
      reason: "not_interruptible",
      rule: 8,
      challenger: { agentId: "phone", priority: 90, explained: [{ step: "agent", value: 90 }] },
      wouldNeed: "priority ≥ navigation's preemption_threshold (none is set)",
      say: "Navigation is running; Phone has to wait.",
    });
    expect(await ann.log(navigation.id)).toEqual(before);
  });

  test("a request of a call at navigation's preemption_threshold pauses the navigation", async () => {
    const ann = new E2eClient(lenient);
    const navigation = await ann.hold("navigation");
    await ann.hold("phone");
    expect((await ann.see(navigation.id)).state).toBe("paused");
  });

  test("a request is answered with a sentence to speak: the holder's own if it has one", async () => {
    const ann = new E2eClient(lenient);
    await ann.hold("navigation");
    const { error, decision } = await refused(start(ann, "music"));
    expect([error, decision.say]).toEqual(["导航中，暂时无法Music", "导航中，暂时无法Music"]);
    expect((await accepted(start(ann, "phone"))).decision.say).toBe("导航 → Phone");
  });

  test("a request of vehicle control during planning is rejected for its lower priority", async () => {
    const ann = new E2eClient(node);
    await ann.hold("planner");
    expect((await refused(start(ann, "vehicle"))).decision.reason).toBe("lower_priority");
  });

  test("a request of equal priority is rejected, and with ties: newest it pauses the holder", async () => {
    const ann = new E2eClient(node);
    await ann.hold("music");
    expect((await refused(start(ann, "music"))).decision).toMatchObject({ reason: "equal_priority", rule: 6 });
    const bob = new E2eClient(lenient);
    const first = await bob.hold("music");
    expect((await accepted(start(bob, "music"))).decision.reason).toBe("preempted");
    expect((await bob.see(first.id)).state).toBe("paused");
  });

  test("a request that would exceed max_paused is rejected, and the holder is not affected", async () => {
    const ann = new E2eClient(lenient);
    for (const agent of ["chat", "music"]) await ann.hold(agent);
    const weather = await ann.hold("weather");
    const before = await ann.log(weather.id);
    expect((await refused(start(ann, "planner"))).decision.reason).toBe("stack_full");
    expect(await ann.log(weather.id)).toEqual(before);
  });

  test("a request of another user does not affect the first user", async () => {
    const [ann, bob] = [new E2eClient(node), new E2eClient(node)];
    const music = await ann.hold("music");
    const before = await ann.log(music.id);
    expect((await accepted(start(bob, "music"))).decision.reason).toBe("floor_free");
    expect(await ann.log(music.id)).toEqual(before);
    expect((await ann.floor()).holder!.id).toBe(music.id);
  });

  test("a request in another zone, or of a session without a user, competes with no other session", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    expect((await accepted(ann.askToCreate({ agentId: "music", activate: true, zone: "rear" }))).session.state).toBe(
      "active",
    );
    const { session } = await accepted(node.post("/session/create", { agentId: "music", activate: true }));
    expect(session.state).toBe("active");
  });
});

describe("the end of an interruption", () => {
  test("the end of an interruption resumes the music", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const weather = await ann.hold("weather");
    await accepted(ann.on(weather.id, "archive"));
    expect((await ann.see(music.id)).state).toBe("active");
    const [decision, resumed] = (await ann.log(music.id)).slice(-2);
    expect(decision).toMatchObject({ type: "arbitration", data: { outcome: "granted", reason: "resumed" } });
    expect(resumed!.data).toMatchObject({ from: "paused", to: "active.idle", event: "resume" });
  });

  test("the ends of three nested interruptions resume the sessions one after the other, and no others", async () => {
    const ann = new E2eClient(node);
    const stack = [];
    for (const agent of ["chat", "weather", "planner", "phone"]) stack.push((await ann.hold(agent)).id);
    expect((await ann.floor()).paused.map(({ id }) => id)).toEqual([stack[2], stack[1], stack[0]]);
    for (const ended of [3, 2, 1]) {
      await accepted(ann.on(stack[ended]!, "archive"));
      const { holder, paused } = await ann.floor();
      expect(holder!.id).toBe(stack[ended - 1]);
      expect(paused.map(({ id }) => id)).toEqual(stack.slice(0, ended - 1).reverse());
    }
  });

  test("the end of an interruption skips a session that was archived while paused, without affecting the holder", async () => {
    const ann = new E2eClient(node);
    const chat = await ann.hold("chat");
    const planner = await ann.hold("planner");
    const phone = await ann.hold("phone");
    const before = await ann.log(phone.id);
    await accepted(ann.on(planner.id, "archive"));
    expect(await ann.log(phone.id)).toEqual(before);
    await accepted(ann.on(phone.id, "archive"));
    expect((await ann.floor()).holder!.id).toBe(chat.id);
  });

  test("the end of an interruption leaves the floor free if the user stopped the interrupted session", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const phone = await ann.hold("phone");
    await accepted(ann.on(music.id, "stop"));
    await accepted(ann.on(phone.id, "archive"));
    expect((await ann.floor()).holder).toBeNull();
    expect((await ann.see(music.id)).state).toBe("archived");
  });

  test("the end of an interruption wakes no session that the user had paused", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    await accepted(ann.on(music.id, "pause"));
    const phone = await ann.hold("phone");
    await accepted(ann.on(phone.id, "archive"));
    expect(await ann.see(music.id)).toMatchObject({ state: "paused", pausedBy: "user" });
  });

  test("the end of an interruption wakes no session whose agent resumes by hand", async () => {
    const ann = new E2eClient(lenient);
    const byhand = await ann.hold("byhand");
    const phone = await ann.hold("phone");
    await accepted(ann.on(phone.id, "archive"));
    expect((await ann.see(byhand.id)).state).toBe("paused");
    expect((await accepted(ann.on(byhand.id, "resume"))).session.state).toBe("active");
  });

  test("an interruption that ends by deletion ends like any other", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const phone = await ann.hold("phone");
    await accepted(node.delete(`/session/${phone.id}`));
    expect((await ann.see(music.id)).state).toBe("active");
  });
});

describe("an explicit resume", () => {
  test("an explicit resume during a call is rejected; the session stays paused", async () => {
    const ann = new E2eClient(node);
    const weather = await ann.hold("weather");
    await ann.hold("phone");
    expect((await refused(ann.on(weather.id, "resume"))).decision.reason).toBe("lower_priority");
    expect((await ann.see(weather.id)).state).toBe("paused");
  });

  test("an explicit resume of higher priority is rejected by a holder that is not interruptible", async () => {
    const ann = new E2eClient(lenient);
    const planner = await ann.hold("planner");
    await accepted(ann.on(planner.id, "pause"));
    await ann.hold("stubborn");
    expect((await refused(ann.on(planner.id, "resume"))).decision.reason).toBe("not_interruptible");
    expect((await ann.see(planner.id)).state).toBe("paused");
  });
});

describe("a queued session", () => {
  test("a queued session is granted the floor once when the call ends", async () => {
    const ann = new E2eClient(node);
    const phone = await ann.hold("phone");
    const { session, decision } = await accepted(start(ann, "patient"));
    expect(decision).toMatchObject({ outcome: "queued", reason: "lower_priority" });
    await accepted(ann.on(phone.id, "archive"));
    const log = await ann.log(session.id);
    expect(log.at(-2)!.data).toMatchObject({ outcome: "granted", reason: "dequeued" });
    expect(transitionsOf(log)).toEqual(["created→active.idle"]);
    expect(await ann.see(session.id)).not.toHaveProperty("queuedAt");
  });

  test("a queued session comes after a paused one of higher priority, and never before an earlier one of the same priority", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music");
    const phone = await ann.hold("phone");
    const { session: first } = await accepted(start(ann, "patient"));
    const { session: second } = await accepted(start(ann, "patient"));
    const order = [];
    for (let holder = phone.id as string; ; ) {
      await accepted(ann.on(holder, "archive"));
      const next = (await ann.floor()).holder;
      if (!next) break;
      holder = next.id;
      order.push(next.id);
    }
    expect(order).toEqual([music.id, first.id, second.id]);
  });

  test("a session is rejected if the queue is full", async () => {
    const ann = new E2eClient(lenient);
    await ann.hold("phone");
    expect((await accepted(start(ann, "patient"))).decision.outcome).toBe("queued");
    expect((await refused(start(ann, "patient"))).decision).toMatchObject({
      outcome: "rejected",
      reason: "queue_full",
    });
  });
});

describe("stopping", () => {
  test("stopping an idle floor, a whole floor, or a session twice is not an error", async () => {
    const ann = new E2eClient(node);
    for (const verb of ["stop", "stop-all"]) {
      expect((await accepted(node.post(`${ann.floorPath}/${verb}`))).archived).toEqual([]);
    }
    const { id } = await ann.hold("music");
    await accepted(ann.on(id, "stop"));
    await accepted(ann.on(id, "stop"));
    expect(transitionsOf(await ann.log(id))).toEqual(["created→active.idle", "active.idle→archived"]);
  });
});
