/** Devices of a real broker that know nothing of Interlock. */

import { expect, test } from "vitest";
import type { MqttDevice } from "../../support/clients/mqtt-device.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { MqttStage } from "../../support/servers/mqtt-stage.ts";

describeWith(["mosquitto"], "devices over MQTT", (path) => {
  const stage = MqttStage.forSuite(path);

  const isState = (user: string, state: string) =>
    expect.poll(async () => (await stage.statesOf(user)).find((each) => !each.startsWith("p"))).toBe(state);
  const is = (device: MqttDevice, playing: string, volume = 60) =>
    expect.poll(() => [device.playing, device.volume]).toEqual([playing, volume]);

  test("a device is quieter beneath a prompt, paused in a call, and back at its own volume; what its user does is a request", async () => {
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/kitchen`);
    await stage.bridge(
      user,
      `players: [${device.entry(`id: kitchen, agent: music_agent, user: ${user}, zone: kitchen`)}]`,
    );
    await device.press("playing");
    await isState(user, "music_agent active");
    const prompt = await stage.ask("prompt_agent", user, "kitchen");
    await is(device, "playing", 12);
    await stage.client.stopSession(prompt);
    await is(device, "playing", 60);
    const call = await stage.ask("phone_agent", user, "kitchen");
    await is(device, "paused");
    // Its user plays it in the call, which refuses or queues it.
    await device.press("playing");
    await is(device, "paused");
    await stage.client.stopSession(call);
    await is(device, "playing");
    await device.press("paused");
    await isState(user, "music_agent paused");
    await device.press("playing");
    await isState(user, "music_agent active");
    await device.press("stopped");
    await isState(user, "music_agent archived");
  });

  test("with MQTT 3.1.1 a device whose network is cut loses its session at once, and has a new one when it is back", async () => {
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/tv`);
    await stage.bridge(user, `players: [${device.entry(`id: tv, agent: music_agent, user: ${user}`)}]`, "3.1.1");
    await device.press("playing");
    await isState(user, "music_agent active");
    device.cut();
    await isState(user, "music_agent archived");
    await device.connect();
    await isState(user, "music_agent active");
    expect(await stage.statesOf(user)).toEqual(["music_agent active", "music_agent archived"]);
  });

  test("without a topic that says that it is there, a device has its session for its lease after each message", async () => {
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/radio`);
    const entry = device.entry(`id: radio, agent: radio_agent, user: ${user}`, { hasAlive: false, hasVolume: false });
    await stage.bridge(user, `players: [${entry}]`);
    await device.press("playing");
    await isState(user, "radio_agent active");
    await isState(user, "radio_agent archived");
    await device.press("playing");
    await isState(user, "radio_agent active");
  });

  test("a killed bridge leaves nothing quieter or paused for ever: the next start puts it back", async () => {
    const user = stage.node.newUser();
    const device = await stage.device(`${user}/hall`);
    const bridge = await stage.bridge(
      user,
      `players: [${device.entry(`id: hall, agent: music_agent, user: ${user}`)}]`,
    );
    await device.press("playing");
    await isState(user, "music_agent active");
    const prompt = await stage.ask("prompt_agent", user);
    await is(device, "playing", 12);
    await bridge.kill();
    await stage.client.stopSession(prompt);
    await bridge.begin();
    await is(device, "playing", 60);
    const call = await stage.ask("phone_agent", user);
    await is(device, "paused");
    await bridge.kill();
    await stage.client.stopSession(call);
    await bridge.begin();
    await is(device, "playing", 60);
    expect(await bridge.stop()).toBe(0);
    await isState(user, "music_agent archived");
  });
});
