import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { type Client, createClient } from "../../../src/client/interlock-client.ts";
import { MqttBridge } from "../clients/mqtt-bridge.ts";
import { MqttDevice } from "../clients/mqtt-device.ts";
import { NodeUnderTest } from "../nodes/node-under-test.ts";
import { Mosquitto, type MosquittoOptions } from "./mosquitto.ts";

const external = { adapter: { kind: "external" } };
/** The agents of the node beside a broker. */
export const MQTT_AGENTS = [
  { name: "music_agent", priority: 20, when_preempted: "duck", when_blocked: ["duck", "queue"], ...external },
  { name: "radio_agent", priority: 20, lease: "1s", ...external },
  { name: "prompt_agent", priority: 80, beneath: { all: -14 }, ...external },
  { name: "dialog_agent", priority: 50, adapter: { kind: "scripted", replies: [{ say: ["Yes."] }] } },
  { name: "phone_agent", priority: 90, interruptible: false, ...external },
];
export const MQTT_CATALOG = {
  default_agent: "dialog_agent",
  restrictions: [{ name: "reverse", when: "reverse_gear", allow: ["phone_agent"], others: "pause" }],
};

/** A broker, a node and bridges between them. The broker and the node are those of all tests of a file. */
export class MqttStage {
  broker!: Mosquitto;
  node!: NodeUnderTest;
  client!: Client;

  /** For a suite: the servers start before its tests, and end after them. */
  static forSuite(path: string, options: MosquittoOptions = {}): MqttStage {
    const stage = new MqttStage();
    beforeAll(async () => {
      stage.node = await NodeUnderTest.start({ agents: MQTT_AGENTS, catalog: MQTT_CATALOG });
      stage.client = createClient({ baseUrl: stage.node.url });
      stage.broker = await Mosquitto.start(path, options);
    });
    afterAll(async () => {
      await stage.broker?.stop();
      await stage.node?.stop();
    });
    return stage;
  }

  /** The text of a file with this rest. */
  text(name: string, rest: string, broker = `{ url: ${this.broker.url} }`): string {
    return `broker: ${broker}\nname: ${name}\n${rest}`;
  }

  /** A bridge with this file, which ends with the test. Resolves when the broker is there for it. */
  async bridge(name: string, rest: string, version: 5 | "3.1.1" = 5): Promise<MqttBridge> {
    const text = this.text(name, rest, `{ url: ${this.broker.url}, version: ${JSON.stringify(version)} }`);
    const bridge = await MqttBridge.start({ text, url: this.node.url });
    await this.isOnline(name);
    return bridge;
  }

  async isOnline(name: string): Promise<void> {
    const heard = await this.broker.listen(`interlock/bridge/${name}`);
    await expect.poll(() => heard.last(`interlock/bridge/${name}`)).toBe("online");
    heard.stop();
  }

  async device(base: string): Promise<MqttDevice> {
    const device = await MqttDevice.start(this.broker, base);
    onTestFinished(() => device.stop());
    return device;
  }

  async ask(agentId: string, userId: string, zone?: string): Promise<string> {
    const place = { agentId, userId, activate: true, ...(zone !== undefined && { zone }) };
    return (await this.client.createSession(place)).session.id;
  }

  /** The sessions of a user, the newest first, with their states. */
  async statesOf(userId: string): Promise<string[]> {
    const { sessions } = await this.client.listSessions({ userId, includeArchived: true });
    return sessions.map(({ agentId, state }) => `${agentId} ${state}`);
  }
}
