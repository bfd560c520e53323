/** The bridge beside a real broker and a real node; Mosquitto's own clients are the car. */

import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/client/interlock-client.ts";
import { MqttBridge } from "../../support/clients/mqtt-bridge.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { Mosquitto } from "../../support/servers/mosquitto.ts";

const external = { adapter: { kind: "external" } };
const AGENTS = [
  { name: "music_agent", priority: 20, when_preempted: "duck", when_blocked: ["duck", "queue"], ...external },
  { name: "prompt_agent", priority: 80, beneath: { all: -14 }, ...external },
  { name: "dialog_agent", priority: 50, adapter: { kind: "scripted", replies: [{ say: ["Yes."] }] } },
  { name: "phone_agent", priority: 90, interruptible: false, ...external },
];
const CATALOG = {
  default_agent: "dialog_agent",
  restrictions: [{ name: "reverse", when: "reverse_gear", allow: ["phone_agent"], others: "pause" }],
};

describeWith(["mosquitto"], "interlock mqtt", (path) => {
  let node: NodeUnderTest;
  let broker: Mosquitto;
  beforeAll(async () => {
    node = await NodeUnderTest.start({ agents: AGENTS, catalog: CATALOG });
    broker = await Mosquitto.start(path);
  });
  afterAll(async () => {
    await broker?.stop();
    await node?.stop();
  });

  /** A bridge with this file, which needs no broker's entry. */
  async function startBridge(rest: string, ready = true): Promise<MqttBridge> {
    const text = `broker: { url: ${broker.url} }\n${rest}`;
    const bridge = await MqttBridge.start({ text, url: node.url });
    onTestFinished(() => bridge.remove());
    if (ready) await expect.poll(() => bridge.said).toContain("the broker is there");
    return bridge;
  }

  const flagsOf = async (user: string) => (await createClient({ baseUrl: node.url }).getFloor(`u:${user}`)).flags;

  test("a signal is a flag, a decision and the floor are published, and the last will says that the bridge is gone", async () => {
    const user = node.newUser();
    const heard = await broker.listen("interlock/#");
    const gear = `vss/${user}/CurrentGear`;
    const bridge = await startBridge(`
name: ${user}
flags:
  - { topic: ${gear}, value: { path: value, is: -1 }, floor: "u:${user}", flag: reverse_gear }
`);
    await expect.poll(() => heard.last(`interlock/bridge/${user}`)).toBe("online");
    const base = `interlock/floor/${user}/-`;
    await expect.poll(() => heard.json(`${base}/holder`)).toEqual({ sessionId: null, agent: null, title: null });
    expect(heard.json(`${base}/heard`)).toEqual({ heard: [] });

    const client = createClient({ baseUrl: node.url });
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
    await expect.poll(() => flagsOf(user)).toEqual({ reverse_gear: true });
    await expect.poll(() => heard.json(`${base}/holder`)).toMatchObject({ agent: null });
    await expect.poll(() => heard.json(ofMusic)).toMatchObject({ state: "paused", level: 0 });
    await broker.retain(gear, '{"value": 1}');
    await expect.poll(() => flagsOf(user)).toEqual({ reverse_gear: false });
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
