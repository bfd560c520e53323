/** Requests over a real broker, with the sessions that they make. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { describeWith } from "../../support/programs/suites.ts";
import type { Listener } from "../../support/servers/mosquitto.ts";
import { MqttStage } from "../../support/servers/mqtt-stage.ts";

const run = promisify(execFile);
/** The flags of a message of MQTT 5 with these properties. */
const withProperties = (properties: Record<string, string>) => [
  ...["-V", "mqttv5"],
  ...Object.entries(properties).flatMap(([name, value]) => ["-D", "publish", name, value]),
];

describeWith(["mosquitto"], "requests over MQTT", (path) => {
  const stage = MqttStage.forSuite(path);

  /** A bridge whose users may ask for prompts and dialogs. */
  async function listening(name: string): Promise<Listener> {
    const out = await stage.broker.listen(`interlock/out/#`, "mine/#", "kitchen/#");
    await stage.bridge(
      name,
      `requests: [{ topic: "interlock/in/+user/request", agents: [prompt_agent, dialog_agent, radio_agent] }]`,
    );
    return out;
  }
  const ask = (user: string, verb: string, body: object, ...flags: string[]) =>
    stage.broker.publish(`interlock/in/${user}/${verb}`, JSON.stringify(body), ...flags);
  const replyOf = async (out: Listener, user: string, id: string, count = 1) => {
    const topic = `interlock/out/${user}/reply/${id}`;
    await expect.poll(() => out.of(topic).length).toBe(count);
    return out.json(topic) as { outcome: string; reason: string; say: string; sessionId: string; state?: string };
  };

  test("a request is decided and answered, its session hears, is kept alive and ends; the same id twice is one request", async () => {
    const user = stage.node.newUser();
    const out = await listening(user);
    // The longest expiry of MQTT 5.
    const forEver = withProperties({ "message-expiry-interval": "4294967295" });
    const request = { id: "r1", agent: "dialog_agent", title: "Weather", text: "How is the weather?" };
    await ask(user, "request", request, ...forEver);
    const asked = await replyOf(out, user, "r1");
    expect(asked).toMatchObject({ outcome: "granted", reason: "floor_free" });
    const { sessionId } = asked;
    await ask(user, "request", request);
    expect(await replyOf(out, user, "r1", 2)).toEqual(asked);
    expect(await stage.statesOf(user)).toEqual(["dialog_agent active"]);
    const messages = async () => (await stage.client.listMessages(sessionId)).messages;
    await expect
      .poll(async () => (await messages()).map(({ content }) => content))
      .toEqual(["How is the weather?", "Yes."]);

    await ask(user, "say", { id: "s1", sessionId, text: "And tomorrow?" });
    expect(await replyOf(out, user, "s1")).toMatchObject({ outcome: expect.stringMatching(/done|granted/) });
    await ask(user, "say", { id: "s1", sessionId, text: "And tomorrow?" });
    await replyOf(out, user, "s1", 2);
    await expect
      .poll(async () => (await messages()).map(({ role }) => role))
      .toEqual(["user", "assistant", "user", "assistant"]);
    const [, reply] = await messages();
    await ask(user, "played", { id: "p1", sessionId, messageId: reply!.id, upTo: 2 });
    expect(await replyOf(out, user, "p1")).toMatchObject({ outcome: "done", sessionId });
    await ask(user, "heartbeat", { id: "h1", sessionId });
    expect(await replyOf(out, user, "h1")).toMatchObject({ outcome: "done", state: "active" });
    await ask(user, "end", { id: "e1", sessionId });
    expect(await replyOf(out, user, "e1")).toMatchObject({ outcome: "done" });
    expect(await stage.statesOf(user)).toEqual(["dialog_agent archived"]);
  });

  test("a request for all zones has one text for each open floor, and its end ends all; one for a zone stays there", async () => {
    const user = stage.node.newUser();
    const out = await stage.broker.listen(`interlock/out/${user}/#`);
    await stage.bridge(
      user,
      `requests:
  - { topic: "interlock/in/${user}/+zone/request", user: ${user}, agents: [dialog_agent] }
  - { topic: "interlock/attic/request", user: ${user}, zone: attic, agents: [dialog_agent] }`,
    );
    for (const zone of ["attic", "kitchen"]) await stage.client.createSession({ userId: user, zone });
    await ask(user, "*/request", { id: "a1", agent: "dialog_agent", text: "Dinner is ready." });
    const asked = (await replyOf(out, user, "a1")) as unknown as { sessionId: string; zones: { sessionId: string }[] };
    expect(asked).toMatchObject({
      outcome: "granted",
      zones: [
        { zone: "attic", outcome: "granted", reason: "floor_free" },
        { zone: "kitchen", outcome: "granted", reason: "floor_free" },
      ],
    });
    for (const { sessionId } of asked.zones) {
      const [said] = (await stage.client.listMessages(sessionId)).messages;
      expect(said).toMatchObject({ content: "Dinner is ready." });
    }
    await stage.broker.publish(
      "interlock/attic/end",
      JSON.stringify({ id: "e1", sessionId: asked.zones[1]!.sessionId }),
    );
    expect(await replyOf(out, user, "e1")).toMatchObject({ outcome: "refused", reason: "not_listed" });
    await ask(user, "*/end", { id: "e2", sessionId: asked.sessionId });
    expect(await replyOf(out, user, "e2")).toMatchObject({ outcome: "done" });
    for (const { sessionId } of asked.zones)
      expect((await stage.client.getSession(sessionId)).session.state).toBe("archived");
  });

  test("a decision that refuses is the answer, with its sentence; MQTT 5's response topic gets it", async () => {
    const user = stage.node.newUser();
    const out = await listening(user);
    const call = await stage.ask("phone_agent", user);
    const flags = withProperties({ "response-topic": `mine/${user}`, "correlation-data": "c1" });
    await ask(user, "request", { id: "r1", agent: "prompt_agent" }, ...flags);
    await expect.poll(() => out.json(`mine/${user}`)).toMatchObject({ id: "r1", outcome: "rejected", sessionId: null });
    expect(out.json(`mine/${user}`)).toMatchObject({ say: expect.stringMatching(/\w+ .*\.$/) });
    expect(out.of(`interlock/out/${user}/reply/r1`)).toEqual([]);
    await stage.client.stopSession(call);
    // The same request is decided anew: it changed nothing. Its repeat was answered, and is one request.
    const topics = ["-t", `interlock/in/${user}/request`, "-e", `mine/${user}/rr`];
    const message = ["-m", JSON.stringify({ id: "r2", agent: "prompt_agent" })];
    const { stdout } = await run("mosquitto_rr", [...stage.broker.clientFlags(), ...topics, ...message]);
    expect(JSON.parse(stdout)).toMatchObject({ id: "r2", outcome: "granted" });
  });

  test("what the file does not list, sessions of others, retained and expired requests are refused by name", async () => {
    const user = stage.node.newUser();
    const other = stage.node.newUser();
    const out = await listening(user);
    const refused = async (id: string, reason: string) =>
      expect(await replyOf(out, user, id)).toMatchObject({ outcome: "refused", reason, sessionId: null });
    await ask(user, "request", { id: "r1", agent: "phone_agent" });
    await refused("r1", "not_listed");
    const theirs = await stage.ask("prompt_agent", other);
    const unlisted = await stage.ask("music_agent", user);
    for (const [id, sessionId] of [
      ["e1", theirs],
      ["e2", unlisted],
      ["e3", "nobody"],
      ["e4", "../x"],
      ["e5", "+"],
    ] as const) {
      await ask(user, "end", { id, sessionId });
      await refused(id, "not_listed");
    }
    expect([await stage.statesOf(other), await stage.statesOf(user)]).toEqual([
      ["prompt_agent active"],
      ["music_agent active"],
    ]);
    await ask(user, "request", { id: "r2" });
    await refused("r2", "bad_request");
    // Ids with the signs of topics stay on one level, and a name of another user is only a name.
    await ask(user, "request", { id: "a/+/#", agent: "nobody" });
    await expect
      .poll(() => out.json(`interlock/out/${user}/reply/a%2F%2B%2F%23`))
      .toMatchObject({ outcome: "refused" });
    await stage.broker.retain(`interlock/in/${other}/request`, JSON.stringify({ id: "old", agent: "radio_agent" }));
    await expect
      .poll(() => out.json(`interlock/out/${other}/reply/old`))
      .toMatchObject({ outcome: expect.any(String) });
    await stage.broker.retain(`interlock/in/${other}/request`, "");
  });

  test("a reply goes to no topic of a device, of the bridge or of the file", async () => {
    const user = stage.node.newUser();
    const out = await listening(user);
    for (const [index, topic] of [
      `interlock/floor/${user}/-/holder`,
      "homeassistant/sensor/x/config",
      `interlock/in/${user}/request`,
    ].entries()) {
      const flags = withProperties({ "response-topic": topic });
      await ask(user, "request", { id: `r${index}`, agent: "nobody" }, ...flags);
      expect(await replyOf(out, user, `r${index}`)).toMatchObject({ outcome: "refused" });
    }
  });
});
