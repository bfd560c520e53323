import { connectAsync, type MqttClient } from "mqtt";
import type { Mosquitto } from "../servers/mosquitto.ts";

/** A player of a house that knows nothing of Interlock: it does what its topics say, and says how it is. */
export class MqttDevice {
  readonly base: string;
  readonly orders: string[] = [];
  playing: "playing" | "paused" | "stopped" = "stopped";
  volume = 60;
  readonly #broker: Mosquitto;
  #client: MqttClient | undefined;

  private constructor(broker: Mosquitto, base: string) {
    this.#broker = broker;
    this.base = base;
  }

  static async start(broker: Mosquitto, base: string): Promise<MqttDevice> {
    const device = new MqttDevice(broker, base);
    await device.connect();
    return device;
  }

  /** Its entry of the bridge's file. `rest`: further keys, as `agent: a, user: u`. */
  entry(rest: string, { hasAlive = true, hasVolume = true } = {}): string {
    const alive = hasAlive ? `, alive: { topic: ${this.base}/online, is: online }` : "";
    const volume = hasVolume ? `, volume: { topic: ${this.base}/volume/set, from_db: percent }` : "";
    return `{ ${rest}, playing: { topic: ${this.base}/state, is: playing }${alive}${volume}, pause: { topic: ${this.base}/cmd, payload: pause }, play: { topic: ${this.base}/cmd, payload: play } }`;
  }

  async connect(): Promise<void> {
    const will = { topic: `${this.base}/online`, payload: Buffer.from("offline"), qos: 1 as const, retain: true };
    const client = await connectAsync(this.#broker.url, { will, reconnectPeriod: 100 });
    this.#client = client;
    client.on("error", () => {});
    client.on("message", (topic, payload) => this.#obey(topic, payload.toString()));
    const greet = async () => {
      await client.subscribeAsync([`${this.base}/cmd`, `${this.base}/volume/set`], { qos: 1 });
      await this.#say("online", "online");
      await this.#say("volume", String(this.volume));
      await this.#say("state", this.playing);
    };
    client.on("connect", () => void greet().catch(() => {}));
    await greet();
  }

  /** Its user presses a key on it. */
  async press(playing: MqttDevice["playing"]): Promise<void> {
    this.playing = playing;
    await this.#say("state", playing);
  }

  /** Its network is cut: the broker publishes its last will. */
  cut(): void {
    this.#client?.end(true);
    this.#client?.stream.destroy();
  }

  async stop(): Promise<void> {
    await this.#client?.endAsync(true).catch(() => {});
  }

  async #say(what: string, payload: string): Promise<void> {
    await this.#client!.publishAsync(`${this.base}/${what}`, payload, { qos: 1, retain: true });
  }

  #obey(topic: string, payload: string): void {
    this.orders.push(`${topic.slice(this.base.length + 1)} ${payload}`);
    if (topic === `${this.base}/volume/set`) {
      this.volume = Number(payload);
      void this.#say("volume", payload).catch(() => {});
    } else {
      this.playing = payload === "play" ? "playing" : "paused";
      void this.#say("state", this.playing).catch(() => {});
    }
  }
}
