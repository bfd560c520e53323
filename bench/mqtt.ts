import type { Socket } from "node:net";
import { connectAsync, type MqttClient } from "mqtt";
import { createClient } from "../src/client/interlock-client.ts";
import { MqttBridge } from "../test/support/clients/mqtt-bridge.ts";
import { findPrograms } from "../test/support/programs/find-programs.ts";
import { Mosquitto } from "../test/support/servers/mosquitto.ts";
import { Child } from "./support/child.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/**
 * From the publishing of a signal (reverse gear) until the device has the order to pause, over the broker, the bridge,
 * the node and back, compared with a message that a subscriber of the same broker receives.
 */
const ROUNDS = 200;
const WARM_UP = 20;
const GEAR = "vss/Vehicle/Powertrain/Transmission/CurrentGear";

const FILE = `
flags: [{ topic: ${GEAR}, value: { path: value, is: -1 }, floor: u:driver, flag: reverse_gear }]
players:
  - { id: media, agent: music_agent, user: driver, playing: { topic: media/state, is: playing }, alive: { topic: media/online, is: online },
      pause: { topic: media/cmd, payload: pause }, play: { topic: media/cmd, payload: play } }
`;

/** The next message of a topic that has this payload. */
function heard(client: MqttClient, topic: string, payload: string): Promise<number> {
  return new Promise((resolve) => {
    const listen = (name: string, text: Buffer) => {
      if (name !== topic || text.toString() !== payload) return;
      client.off("message", listen);
      resolve(performance.now());
    };
    client.on("message", listen);
  });
}

export async function benchMqtt(): Promise<Row[]> {
  const path = (await findPrograms()).mosquitto?.machine;
  if (path === undefined) throw new Error("this bench needs mosquitto");
  const node = await Child.start("interlock.ts", ["", "car"]);
  const broker = await Mosquitto.start(path, { lines: ["allow_anonymous true", "set_tcp_nodelay true"] });
  const start = { text: `broker: { url: ${broker.url} }\n${FILE}`, url: node.url };
  let endBridge = async () => {};
  await MqttBridge.start(start, (end) => (endBridge = end));
  const [car, device] = await Promise.all([connectAsync(broker.url), connectAsync(broker.url)]);
  for (const { stream } of [car, device]) (stream as unknown as Socket).setNoDelay(true);
  try {
    await device.subscribeAsync(["media/cmd", "bare"], { qos: 1 });
    const say = (state: string) => device.publishAsync("media/state", state, { qos: 1, retain: true });
    await device.publishAsync("media/online", "online", { qos: 1, retain: true });
    await say("playing");
    const client = createClient({ baseUrl: node.url });
    while ((await client.getFloor("u:driver")).holder === null) await new Promise((done) => setTimeout(done, 20));
    const signals: number[] = [];
    const bare: number[] = [];
    for (let round = 0; round < ROUNDS + WARM_UP; round += 1) {
      const received = heard(device, "bare", "x");
      const sent = performance.now();
      car.publish("bare", "x", { qos: 1 });
      const bareMs = (await received) - sent;

      const paused = heard(device, "media/cmd", "pause");
      const shifted = performance.now();
      car.publish(GEAR, '{"value": -1}', { qos: 1 });
      const signalMs = (await paused) - shifted;
      await say("paused");
      const resumed = heard(device, "media/cmd", "play");
      car.publish(GEAR, '{"value": 1}', { qos: 1 });
      await resumed;
      await say("playing");
      if (round < WARM_UP) continue;
      bare.push(bareMs);
      signals.push(signalMs);
    }
    const row = (what: string, share: number) => ({
      what: `signal → order to pause at the device, compared with a bare message, ${what}`,
      ours: quantile(signals, share),
      reference: quantile(bare, share),
      unit: "ms",
    });
    return [row("median", 0.5), row("p90", 0.9)];
  } finally {
    await Promise.all([car.endAsync(true), device.endAsync(true)]);
    await endBridge();
    await broker.stop();
    await node.stop();
  }
}
