/** The connection to the broker. The library is loaded by `BrokerLink.open` alone. */

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { dirname, resolve } from "node:path";
import { backoffMs } from "../../shared/waiting.ts";
import type { MqttFile } from "./mqtt-file.ts";

const MQTT_NEEDS = "interlock mqtt needs the package mqtt: npm install mqtt@5.16.0";

/** The pause before the broker is connected again: longer after each failure, and never the same for two bridges. */
const BETWEEN_TRIES = { firstMs: 500, maxMs: 15_000 };
const CONNECT_MS = 5_000;
/** After so much silence the broker is asked whether it is there, in s; half of it later the link counts as broken. */
const KEEPALIVE_S = 10;
/** How long the end of a connection may take, in ms. */
const END_MS = 1_000;
/** QoS of everything: at least once. */
const QOS = 1;
/** The longest packet that a broker of MQTT 5 sends to the bridge, in bytes. It drops what is longer. */
const MAX_PACKET = 2 << 20;
/** What MQTT 5 answers for a subscription that it refuses, and above. */
const REFUSED = 128;

export interface BrokerMessage {
  readonly topic: string;
  readonly payload: Buffer;
  /** It was kept by the broker, and may be of any age. */
  readonly isRetained: boolean;
  /** Where its sender wants the answer (MQTT 5). */
  readonly responseTopic: string | undefined;
  readonly correlationData: Buffer | undefined;
  /** For how long it still counts, in s (MQTT 5). */
  readonly expiresInS: number | undefined;
}

export interface PublishOptions {
  isRetained?: boolean;
  correlationData?: Buffer | undefined;
}

/** What the bridge needs of a broker. */
export interface Link {
  readonly isUp: boolean;
  /** Resolves when the broker has it. @throws Error if the link is down, or breaks before */
  publish(topic: string, payload: string, options?: PublishOptions): Promise<void>;
  /** @returns the filters that the broker refuses. @throws Error if the link is down */
  subscribe(filters: readonly string[]): Promise<string[]>;
  unsubscribe(filter: string): Promise<void>;
}

export interface LinkListener {
  /** A new connection, on which nothing is subscribed to. */
  onUp(): void;
  /** The connection has ended, or could not be made: a sentence. It is tried again. */
  onDown(why: string): void;
  onMessage(message: BrokerMessage): void;
}

export interface LinkOptions extends LinkListener {
  broker: MqttFile["broker"];
  /** The file's path: certificates and the password are relative to it. */
  file: string;
  /** What the broker publishes, retained, when the link breaks. */
  will: { topic: string; payload: string };
}

type Mqtt = typeof import("mqtt");
type Packet = import("mqtt").Packet;
type MqttClient = import("mqtt").MqttClient;

/** Of a file of the bridge, with the contents of the files that it names. */
type Credentials = Partial<Record<"username" | "password" | "ca" | "cert" | "key", string>>;

export class BrokerLink implements Link {
  readonly #mqtt: Mqtt;
  readonly #options: LinkOptions;
  #client: MqttClient | undefined;
  #failed = 0;
  #again: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  /** Orders and answers that wait for the broker reject with it. */
  #broken = new AbortController();

  private constructor(mqtt: Mqtt, options: LinkOptions) {
    this.#mqtt = mqtt;
    this.#options = options;
  }

  /**
   * Connect, and again whenever the connection ends. Does not wait for the first connection.
   * @throws Error with a sentence if the library is not installed, or a file of the broker's cannot be read
   */
  static async open(options: LinkOptions): Promise<BrokerLink> {
    const mqtt = await import("mqtt").catch((cause: unknown) => {
      throw new Error(MQTT_NEEDS, { cause });
    });
    const link = new BrokerLink(mqtt, options);
    await link.#credentials();
    void link.#connect();
    return link;
  }

  get isUp(): boolean {
    return this.#client?.connected === true;
  }

  async publish(topic: string, payload: string, options: PublishOptions = {}): Promise<void> {
    const client = this.#present();
    const { isRetained = false, correlationData } = options;
    const properties = this.#options.broker.version === 5 && correlationData ? { properties: { correlationData } } : {};
    await this.#unlessBroken(client.publishAsync(topic, payload, { qos: QOS, retain: isRetained, ...properties }));
  }

  async subscribe(filters: readonly string[]): Promise<string[]> {
    if (filters.length === 0) return [];
    const client = this.#present();
    const refused: string[] = [];
    const ask = (filter: string) =>
      client.subscribeAsync({ [filter]: { qos: QOS } }).then(
        (grants) => void (grants.some(({ qos }) => qos >= REFUSED) && refused.push(filter)),
        (error: unknown) => {
          if (!client.connected) throw error;
          refused.push(filter);
        },
      );
    await this.#unlessBroken(Promise.all(filters.map(ask)));
    return refused;
  }

  async unsubscribe(filter: string): Promise<void> {
    await this.#unlessBroken(this.#present().unsubscribeAsync(filter));
  }

  /** End the connection in order: the broker publishes no last will. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#again);
    const client = this.#client;
    this.#client = undefined;
    this.#broken.abort(new Error("the bridge ends"));
    if (!client) return;
    const isConnected = client.connected;
    const timeout = new Promise((done) => setTimeout(done, END_MS).unref());
    await Promise.race([client.endAsync(!isConnected).catch(() => {}), timeout]);
    client.end(true);
  }

  #present(): MqttClient {
    if (!this.#client?.connected) throw new Error("the broker is away");
    return this.#client;
  }

  /** The library never answers what a broken connection leaves unanswered. */
  async #unlessBroken<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#broken;
    const broken = Promise.withResolvers<never>();
    const fail = () => broken.reject(signal.reason as Error);
    signal.addEventListener("abort", fail, { once: true });
    try {
      return await Promise.race([work, broken.promise]);
    } finally {
      signal.removeEventListener("abort", fail);
    }
  }

  async #credentials(): Promise<Credentials> {
    const { broker, file } = this.#options;
    const read = async (path: string | undefined) => {
      if (path === undefined) return undefined;
      const full = resolve(dirname(file), path);
      return await readFile(full, "utf8").catch((cause: unknown) => {
        throw new Error(`${full}: the file cannot be read`, { cause });
      });
    };
    const [password, ca, cert, key] = await Promise.all([
      read(broker.password_file),
      read(broker.ca),
      read(broker.cert),
      read(broker.key),
    ]);
    return {
      ...(broker.username !== undefined && { username: broker.username }),
      ...(password !== undefined && { password: password.replace(/\r?\n$/, "") }),
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
    };
  }

  async #connect(): Promise<void> {
    const { broker, will, onUp, onMessage } = this.#options;
    let credentials: Credentials;
    try {
      // Read for each connection, because a password or a certificate may have been changed.
      credentials = await this.#credentials();
    } catch (error) {
      return this.#retry((error as Error).message);
    }
    if (this.#isClosed) return;
    const client = this.#mqtt.connect(broker.url, {
      ...credentials,
      protocolVersion: broker.version === 5 ? 5 : 4,
      // Each connection is new, with no messages of an earlier one.
      clientId: `interlock-${randomUUID().slice(0, 13)}`,
      clean: true,
      reconnectPeriod: 0,
      resubscribe: false,
      queueQoSZero: false,
      connectTimeout: CONNECT_MS,
      keepalive: KEEPALIVE_S,
      will: { ...will, payload: Buffer.from(will.payload), qos: QOS, retain: true },
      ...(broker.version === 5 && { properties: { maximumPacketSize: MAX_PACKET } }),
    });
    this.#client = client;
    let why = "the connection was closed";
    let isOver = false;
    client.on("error", (error) => {
      why = error.message || (error as NodeJS.ErrnoException).code || why;
      // What comes after bytes that are not MQTT is not read.
      client.stream?.destroy();
    });
    client.on("packetreceive", (packet) => {
      if (isWanted(packet)) return;
      // The library would fail in the midst of its answer.
      Object.assign(packet, { cmd: "pingresp" });
      why = "it has sent a packet that nothing here asks for";
      client.stream.destroy();
    });
    client.on("connect", () => {
      if (client !== this.#client) return;
      this.#failed = 0;
      // An order that follows an answer would otherwise wait 40 ms for the broker's acknowledgement.
      (client.stream as Partial<Socket>).setNoDelay?.(true);
      onUp();
    });
    client.on("message", (topic, payload, packet) => {
      if (client !== this.#client) return;
      const { responseTopic, correlationData, messageExpiryInterval } = packet.properties ?? {};
      const expiresInS = messageExpiryInterval;
      onMessage({ topic, payload, isRetained: packet.retain, responseTopic, correlationData, expiresInS });
    });
    client.on("close", () => {
      if (isOver) return;
      isOver = true;
      client.end(true);
      if (client !== this.#client) return;
      this.#client = undefined;
      this.#broken.abort(new Error("the broker is away"));
      this.#broken = new AbortController();
      this.#retry(why);
    });
  }

  #retry(why: string): void {
    if (this.#isClosed) return;
    this.#failed += 1;
    this.#options.onDown(why);
    this.#again = setTimeout(() => void this.#connect(), backoffMs(this.#failed, BETWEEN_TRIES, Math.random));
  }
}

/** Whether the library can answer a packet. Nothing subscribes with QoS 2, and a message of QoS 1 has a number. */
function isWanted(packet: Packet): boolean {
  if (packet.cmd === "pubrel" || packet.cmd === "pubrec") return false;
  return packet.cmd !== "publish" || packet.qos === 0 || (packet.qos === 1 && Number(packet.messageId) >= 1);
}
