import { expect, test } from "vitest";
import { describeWith } from "../../support/programs/suites.ts";
import { MQTT_AGENTS, MQTT_CATALOG, MqttStage } from "../../support/servers/mqtt-stage.ts";

/** The bridge beside a real broker and a real node; Mosquitto's own clients are the car. */
describeWith(["mosquitto"], "interlock mqtt", (path) => {
  const stage = MqttStage.forSuite(path);

  test("a signal is a flag, a decision and the floor are published, and the last will says that the bridge is gone", async () => {
    const { broker, client, node } = stage;
    const flagsOf = async () => (await client.getFloor(`u:${user}`)).flags;
    const user = node.newUser();
    const heard = await broker.listen("interlock/#");
    const gear = `vss/${user}/CurrentGear`;
    const flag = `{ topic: ${gear}, value: { path: value, is: -1 }, floor: "u:${user}", flag: reverse_gear }`;
    const bridge = await stage.bridge(user, `flags: [${flag}]`);
    const base = `interlock/floor/${user}/-`;
    await expect.poll(() => heard.json(`${base}/holder`)).toEqual({ sessionId: null, agent: null, title: null });
    expect(heard.json(`${base}/heard`)).toEqual({ heard: [] });

    const { session: music } = await client.createSession({
      agentId: "music_agent",
      userId: user,
      activate: true,
      title: "Jazz",
    });
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ agent: "music_agent", title: "Jazz" });
    const { session: prompt } = await client.createSession({ agentId: "prompt_agent", userId: user, activate: true });
    await expect
      .poll(() => heard.json(`${base}/heard`))
      .toEqual({
        heard: [
          { agent: "prompt_agent", sessionId: prompt.id, level: 0 },
          { agent: "music_agent", sessionId: music.id, level: -14 },
        ],
      });
    const ofMusic = `${base}/session/${music.id}`;
    expect(heard.json(ofMusic)).toMatchObject({ state: "ducked", level: -14, agent: "music_agent", title: "Jazz" });
    expect((heard.json(ofMusic) as { because: string }).because).toContain("prompt_agent");
    expect(heard.json(`${base}/decision`)).toMatchObject({ outcome: "granted", agent: "prompt_agent" });

    await broker.retain(gear, '{"value": -1}');
    await expect.poll(() => flagsOf()).toEqual({ reverse_gear: true });
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ agent: null });
    await expect.poll(() => heard.json(ofMusic)).toMatchObject({ state: "paused", level: 0 });
    await broker.retain(gear, '{"value": 1}');
    await expect.poll(() => flagsOf()).toEqual({ reverse_gear: false });
    await client.stopSession(prompt.id);
    await client.stopSession(music.id);
    // A topic that ends is cleared.
    await expect.poll(() => heard.last(ofMusic)).toBe("");

    await bridge.kill();
    await expect.poll(() => heard.last(`interlock/bridge/${user}`)).toBe("offline");
    await bridge.begin();
    await expect.poll(() => heard.last(`interlock/bridge/${user}`)).toBe("online");
    expect(await bridge.stop()).toBe(0);
    await expect.poll(() => heard.last(`interlock/bridge/${user}`)).toBe("offline");
  });

  test("an agent that the catalogue gets while the bridge runs has its entity, and one that leaves it has none", async () => {
    const { broker, node } = stage;
    const user = node.newUser();
    const heard = await broker.listen("homeassistant/#");
    await stage.bridge(user, `floors: ["u:${user}"]\ndiscovery: homeassistant`);
    const topicOf = (agent: string) =>
      `homeassistant/binary_sensor/interlock_${user}/${user.replace("-", "-2d")}_-2d_heard_${agent}/config`;
    await expect.poll(() => heard.last(topicOf("radio_agent"))).toContain("is heard");

    const agents = MQTT_AGENTS.map((agent) =>
      agent.name === "radio_agent" ? { ...agent, name: "news_agent" } : agent,
    );
    await node.writeCatalog(JSON.stringify({ ...MQTT_CATALOG, agents }));
    const hasNews = async () => (await stage.client.listAgents()).agents.some(({ id }) => id === "news_agent");
    await expect.poll(hasNews).toBe(true);
    await stage.ask("news_agent", user);
    await expect.poll(() => heard.last(topicOf("news_agent"))).toContain("is heard");
    await expect.poll(() => heard.last(topicOf("radio_agent"))).toBe("");

    // Also of an agent that has not asked.
    const more = [...agents, { ...agents.at(-1)!, name: "sport_agent" }];
    await node.writeCatalog(JSON.stringify({ ...MQTT_CATALOG, agents: more }));
    const hasSport = async () => (await stage.client.listAgents()).agents.length === more.length;
    await expect.poll(hasSport).toBe(true);
    await stage.ask("prompt_agent", user);
    await expect.poll(() => heard.last(topicOf("sport_agent"))).toContain("is heard");
  });
});
