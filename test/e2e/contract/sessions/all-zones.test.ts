import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { reportAnnouncement } from "../../../../src/cli/announce.ts";
import { createClient } from "../../../../src/client/client.ts";
import type { ZoneAnswer } from "../../../../src/protocol/zone-answer.ts";
import { scripted } from "../../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({
  agents: [
    scripted("announcer", { priority: 70 }),
    scripted("music", { priority: 20 }),
    scripted("phone", { priority: 90, interruptible: false }),
    { name: "chime", priority: 60, adapter: { kind: "external" } },
  ],
  catalog: { default_agent: "announcer" },
});
afterAll(() => node.stop());
const client = createClient({ baseUrl: node.url });

/** A house with music in the kitchen and a call in the study. */
let house: E2eClient;
beforeEach(async () => {
  house = new E2eClient(node);
  await house.hold("music", { zone: "kitchen" });
  await house.hold("phone", { zone: "study" });
});
const ask = (fields: object = {}, options = {}) =>
  house.askToCreate({ zone: "*", agentId: "announcer", ...fields }, options);
const zonesIn = (body: object) => (body as { zones: ZoneAnswer[] }).zones;

describe("a request for all zones", () => {
  test("each open floor of the user decides, and one answer lists the decisions", async () => {
    const body = await accepted(ask({ content: "nod" }));
    expect(zonesIn(body)).toMatchObject([
      { zone: "kitchen", floorId: `u:${house.userId}/kitchen`, decision: { outcome: "granted" } },
      { zone: "study", errorCode: "rejected", decision: { reason: "lower_priority" } },
    ]);
    const [kitchen, study] = zonesIn(body);
    expect(study!.sessionId).toBeUndefined();
    const session = await house.see(kitchen!.sessionId!);
    expect(session).toMatchObject({ id: body.session.id, zone: "kitchen", agentId: "announcer", state: "active" });
    expect(session.group!.sessions.map(({ zone }) => zone)).toEqual(["kitchen", "study"]);
    expect((await house.messages(session.id))[0]).toMatchObject({ role: "user", content: "nod" });
  });

  test("what is announced is a message of an agent, and the title of an external agent's sessions", async () => {
    for (const [agent, title] of [
      ["announcer", "nod"],
      ["chime", "Dinner is ready"],
    ] as const) {
      const { facts, isFaulty } = await reportAnnouncement(client, { text: title, user: house.userId, agent });
      const [kitchen] = zonesIn(facts);
      expect(isFaulty).toBe(false);
      expect(await house.see(kitchen!.sessionId!)).toMatchObject({ title, state: "active" });
      await accepted(house.on(kitchen!.sessionId!, "stop"));
    }
  });

  test("a repeat with its key asks nowhere again, and not on a floor that opened later", async () => {
    const first = await accepted(ask({}, { key: "k" }));
    await house.hold("music", { zone: "attic" });
    const again = await accepted(ask({}, { key: "k" }));
    expect(again).toEqual(first);
    const other = await accepted(ask({}, { key: "k2" }));
    expect(zonesIn(other).map(({ zone }) => zone)).toEqual(["attic", "kitchen", "study"]);
  });

  test("a repeat remembers its floors also if the first of them refused", async () => {
    await house.hold("phone", { zone: "attic" });
    const first = await accepted(ask({}, { key: "k3" }));
    expect(zonesIn(first)[0]).toMatchObject({ zone: "attic", errorCode: "rejected" });
    await house.hold("music");
    expect(await accepted(ask({}, { key: "k3" }))).toEqual(first);
  });

  test("if every floor refuses, so does the request, with what each decided", async () => {
    const body = await refused(ask({ agentId: "music", content: "nod" }));
    expect(body.errorCode).toBe("rejected");
    expect(zonesIn(body)).toMatchObject([{ zone: "kitchen" }, { zone: "study", decision: { outcome: "rejected" } }]);
    expect(body).not.toHaveProperty("group");
  });

  test("stop with group ends all its sessions, also one that has moved, and those of no other request", async () => {
    await house.hold("music", { zone: "attic" });
    const { session } = await client.createSession({ userId: house.userId, zone: "*", agentId: "announcer" });
    const other = await client.createSession({ userId: house.userId, zone: "*", agentId: "phone" });
    const [attic, kitchen] = session.group!.sessions;
    await client.stopSession(other.session.id, { group: true });
    for (const { sessionId } of [attic!, kitchen!])
      expect((await house.see(sessionId)).state).toMatch(/^(active|paused)$/);
    const moved = await client.moveSession(kitchen!.sessionId, "cellar");
    await client.stopSession(attic!.sessionId, { group: true });
    await client.stopSession(attic!.sessionId, { group: true });
    for (const id of [attic!.sessionId, moved.session.id]) expect((await house.see(id)).state).toBe("archived");
    expect((await accepted(node.get(`/floor/${encodeURIComponent(`u:${house.userId}/study`)}`))).holder).not.toBeNull();
  });

  test("stop with group ends paused sessions too, and leaves out those that were deleted", async () => {
    await house.hold("music", { zone: "attic" });
    const [attic, kitchen] = (await accepted(ask())).session.group!.sessions;
    await house.hold("phone", { zone: "kitchen" });
    expect((await house.see(kitchen!.sessionId)).state).toBe("paused");
    await accepted(node.delete(`/session/${attic!.sessionId}`));
    await accepted(node.post(`/session/${kitchen!.sessionId}/stop`, { group: true }));
    expect((await house.see(kitchen!.sessionId)).state).toBe("archived");
  });

  test("a user with more floors than one request may ask on is told so, and nothing is asked", async () => {
    for (let index = 0; index < 31; index += 1) await house.hold("music", { zone: `room ${index}` });
    const body = await refused(ask());
    expect(body).toMatchObject({ errorCode: "bad_request", error: `${house.userId} has more than 32 floors.` });
    const { sessions } = await accepted(node.get(`/session/list?userId=${house.userId}&agentId=announcer`));
    expect(sessions).toEqual([]);
  });

  test("what cannot be meant for all zones is refused in a sentence", async () => {
    const { userId } = house;
    const faults = [
      node.post("/session/create", { zone: "*" }),
      ask({ id: "mine" }),
      ask({ in: "10m" }),
      house.askToCreate({ zone: "kitchen", content: "nod" }),
      house.send({ type: "chat", userId, zone: "*", content: "nod" }),
      node.get(`/events?userId=${userId}&zone=*`),
      node.post(`/session/${(await house.create("music")).id}/move`, { zone: "*" }),
    ];
    for (const fault of faults) expect((await refused(fault)).errorCode).toBe("bad_request");
    const stranger = new E2eClient(node);
    expect(await refused(stranger.askToCreate({ zone: "*" }))).toMatchObject({
      errorCode: "not_found",
      error: `${stranger.userId} has no open floor: nothing has asked on one.`,
    });
  });
});
