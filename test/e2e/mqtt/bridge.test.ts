import { expect, test } from "vitest";
import { describeWith } from "../../support/programs/suites.ts";
import { MqttStage } from "../../support/servers/mqtt-stage.ts";

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
});
