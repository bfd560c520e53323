import { randomUUID } from "node:crypto";
import { Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { type Bus, MAX_BUS_MESSAGE } from "../../../src/bus/bus.ts";
import { Mailbox } from "../../../src/cluster/mailbox.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { connectTo, placeOf } from "../../support/servers/redis-place.ts";
import { REDIS_PROCESS, type RedisProcess } from "../../support/servers/redis-server.ts";
import { perTest } from "../../support/servers/shared-server.ts";
import { decode, encode } from "./bus-contract.ts";

// Long enough for servers to start and stop.

describeWith([REDIS_PROCESS], "the bus over a failing Redis", (startRedis) => {
  const startOne = perTest(startRedis);

  /** A server, the store's nodes on it, and the bus of one of them. */
  async function startBus() {
    const server = await startOne();
    const nodes = placeOf(server.url);
    return { server, nodes, bus: await nodes.connect() };
  }

  /** Repeats an action until a condition holds. */
  async function repeat(action: () => Promise<unknown>, isDone: () => boolean): Promise<void> {
    let isOver = false;
    onTestFinished(() => {
      isOver = true;
    });
    while (!isDone() && !isOver) {
      await action();
      await turn();
    }
  }

  /** Publishes until a message arrives: a lost message is not a fault. */
  async function untilReceived(bus: Bus, topic: string, listening: Bus = bus): Promise<void> {
    let isHeard = false;
    const subscription = await listening.subscribe(topic, () => {
      isHeard = true;
    });
    await repeat(
      () => bus.publish(topic, encode("hello")),
      () => isHeard,
    );
    subscription.end();
  }

  const untilAway = (bus: Bus) => new Promise<void>((resolve) => void bus.onAway(resolve));
  const untilRecovered = (bus: Bus) => new Promise<void>((resolve) => void bus.onRecovered(resolve));

  /** Recovered, and no part of it is away any more. */
  async function untilBack(bus: Bus): Promise<void> {
    do await untilRecovered(bus);
    while (bus.isAway());
  }

  async function freeze(server: RedisProcess, bus: Bus): Promise<void> {
    const away = untilAway(bus);
    server.freeze();
    await away;
  }

  async function thaw(server: RedisProcess, bus: Bus): Promise<void> {
    const back = untilBack(bus);
    server.thaw();
    await back;
  }

  test("a message is written at once, and further messages of the same turn of the event loop together", async () => {
    const { bus } = await startBus();
    const texts = Array.from({ length: 20 }, (_, n) => `gathered ${n}`);
    const received: string[] = [];
    const hearsAll = Promise.withResolvers<void>();
    await bus.subscribe("topic", (message) => {
      if (received.push(decode(message)) === texts.length) hearsAll.resolve();
    });
    const writes: string[] = [];
    const note = (chunks: unknown[]) => {
      const written = chunks.map(String).join("");
      if (written.includes("gathered")) writes.push(written);
    };
    const [one, several] = [vi.spyOn(Socket.prototype, "_write"), vi.spyOn(Socket.prototype, "_writev")];
    onTestFinished(() => void vi.restoreAllMocks());
    for (const text of texts) {
      void bus.publish("topic", encode(text));
      // The socket has accepted the data, and would write the next message by itself.
      await new Promise<void>((resolve) => process.nextTick(resolve));
    }
    await hearsAll.promise;
    for (const [chunk] of one.mock.calls) note([chunk]);
    // The socket puts the pieces themselves into the list that it is given.
    for (const [chunks] of several.mock.calls) note(chunks);
    expect(writes).toHaveLength(2);
    expect(writes[0]).toContain("gathered 0");
    expect(received).toEqual(texts);
  });

  test("a bus whose subscribers are cut off repeatedly receives everything once the cuts stop", async () => {
    const { server, bus } = await startBus();
    const missing = new Set<string>();
    for (let index = 0; index < 300; index++) {
      const topic = `topic.${index}`;
      await bus.subscribe(topic, () => void missing.delete(topic));
      missing.add(topic);
    }
    const admin = connectTo(server.url);
    for (let round = 0; round < 20; round++) {
      const recovered = untilRecovered(bus);
      await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
      // Every second time while channels are still being subscribed again.
      let listening: unknown = "";
      const look = async () => {
        listening = await admin.call("CLIENT", "LIST", "TYPE", "pubsub");
      };
      if (round % 2 === 0) await recovered;
      else await repeat(look, () => listening !== "");
    }
    const publishAll = async () => {
      for (const topic of missing) await bus.publish(topic, encode("hello"));
    };
    await repeat(publishAll, () => missing.size === 0);
  });

  test("a subscription whose acknowledgement was lost is requested again", async () => {
    const { server, bus } = await startBus();
    const admin = connectTo(server.url);
    for (let round = 0; round < 20; round++) {
      const topic = `topic.${round}`;
      let isHeard = false;
      const subscribed = bus.subscribe(topic, () => {
        isHeard = true;
      });
      await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
      await subscribed;
      await repeat(
        () => bus.publish(topic, encode("hello")),
        () => isHeard,
      );
    }
  });

  test("commands are unavailable and nothing waits while the bus is frozen; it works again afterwards", async () => {
    const { server, bus } = await startBus();
    const received: string[] = [];
    await bus.subscribe("topic", (message) => void received.push(decode(message)));
    await freeze(server, bus);
    expect([bus.isAway(), bus.isAway("topic")]).toEqual([true, true]);
    await bus.publish("topic", encode("lost"));
    await expect(bus.subscribe("other", () => {})).rejects.toMatchObject({ name: "AppError", code: "unavailable" });
    await thaw(server, bus);
    await bus.publish("topic", encode("hello"));
    await untilReceived(bus, "topic");
    expect(received.slice(0, 1)).toEqual(["hello"]);
  });

  test("a subscription that is not acknowledged is withdrawn: it is unavailable, and receives nothing later", async () => {
    const { server, bus } = await startBus();
    server.freeze();
    const received: string[] = [];
    await expect(bus.subscribe("topic", (message) => void received.push(decode(message)))).rejects.toMatchObject({
      code: "unavailable",
    });
    await thaw(server, bus);
    await untilReceived(bus, "topic");
    expect(received).toEqual([]);
  });

  test("a command that is in transit when the bus freezes is answered, and never executed late", async () => {
    const server = await startOne();
    const nodes = placeOf(server.url);
    const { clock } = nodes;
    const start = async (nodeId: string) => {
      const bus = await nodes.connect();
      const mailbox = new Mailbox({ bus, clock, nodeId, newId: randomUUID, topicOf: () => "floors" });
      await mailbox.start();
      onTestFinished(() => mailbox.stop());
      return { bus, mailbox };
    };
    const [asker, owner] = [await start("asker"), await start("owner")];
    const served: string[] = [];
    await owner.mailbox.serveTopic("floors", async ({ commandId }) => {
      served.push(commandId);
      return { ok: true };
    });
    const envelopeOf = (commandId: string, withinMs: number): Envelope => ({
      floorId: "u:ann" as FloorId,
      caller: "ann",
      commandId,
      bodyHash: "",
      timeoutAt: clock.now() + withinMs,
      command: { type: "floor.stop" },
    });
    const away = untilAway(asker.bus);
    server.freeze();
    const lasting = asker.mailbox.send(envelopeOf("waits for its deadline", 60_000));
    await expect(asker.mailbox.send(envelopeOf("has a deadline", 300))).rejects.toMatchObject({ code: "unavailable" });
    await expect(lasting).rejects.toMatchObject({ code: "unavailable" });
    await away;
    await expect(asker.mailbox.send(envelopeOf("comes later", 60_000))).rejects.toMatchObject({ code: "unavailable" });
    await thaw(server, asker.bus);
    await asker.mailbox.send(envelopeOf("afterwards", 60_000));
    expect(served).not.toContain("has a deadline");
    expect(served).not.toContain("comes later");
    expect(served.at(-1)).toBe("afterwards");
  });

  test("a bus that restarts empty carries all subscriptions again, and reports one outage once", async () => {
    const { server, nodes, bus } = await startBus();
    const received = Promise.withResolvers<string>();
    await bus.subscribe("topic", (message) => received.resolve(decode(message)));
    const away = untilAway(bus);
    await server.kill();
    await away;
    await bus.publish("topic", encode("lost"));
    const back = untilBack(bus);
    await server.restart();
    await back;
    await bus.publish("topic", encode("hello"));
    expect(await received.promise).toBe("hello");
    const outage = ["Redis is away: commands are refused, reads continue", "Redis is reachable again"];
    expect(nodes.log.lines).toEqual(outage);
  });

  test("when one of several servers is away, only its topics are away", async () => {
    const [one, other] = [await startOne(), await startOne()];
    const nodes = placeOf(one.url, other.url);
    const bus = await nodes.connect();
    // The same servers in another order count as the same.
    const beside = await nodes.connect([other.url, one.url]);
    const topics = Array.from({ length: 16 }, (_, index) => `topic.${index}`);
    for (const topic of topics) await untilReceived(bus, topic, beside);
    await freeze(one, bus);
    const gone = topics.filter((topic) => bus.isAway(topic));
    expect(gone.length).toBeGreaterThan(0);
    expect(gone.length).toBeLessThan(topics.length);
    expect(bus.isAway()).toBe(true);
    for (const topic of topics) if (!gone.includes(topic)) await untilReceived(bus, topic, beside);
    const back = [untilBack(bus), beside.isAway() ? untilBack(beside) : undefined];
    one.thaw();
    await Promise.all(back);
    for (const topic of topics) await untilReceived(bus, topic, beside);
  });

  test("stores that share a Redis are separate", async () => {
    const server = await startOne();
    const [mine, theirs] = [placeOf(server.url), placeOf(server.url)];
    const [bus, stranger] = [await mine.connect(), await theirs.connect()];
    const received: string[] = [];
    await stranger.subscribe("topic", (message) => void received.push(decode(message)));
    await bus.publish("topic", encode("mine"));
    await stranger.publish("topic", encode("theirs"));
    await untilReceived(stranger, "topic");
    expect(received[0]).toBe("theirs");
    const channels = await connectTo(server.url).pubsub("CHANNELS", "*");
    expect(channels.length).toBeGreaterThan(0);
    for (const name of channels as string[]) expect(name).toMatch(new RegExp(`^(${mine.epoch}|${theirs.epoch})\\.`));
  });

  test("a message that is too large is dropped and reported, and the bus continues", async () => {
    const { nodes, bus } = await startBus();
    const received: number[] = [];
    await bus.subscribe("topic", (message) => void received.push(message.byteLength));
    await bus.publish("topic", new Uint8Array(MAX_BUS_MESSAGE + 1));
    await bus.publish("topic", new Uint8Array(MAX_BUS_MESSAGE));
    await untilReceived(bus, "topic");
    expect(received[0]).toBe(MAX_BUS_MESSAGE);
    expect(nodes.log.lines).toEqual(["a message exceeds the size limit of the bus and is lost"]);
  });

  test("messages of a stranger that are too large are dropped and reported once, and the bus continues", async () => {
    const { server, nodes, bus } = await startBus();
    const stranger = connectTo(server.url);
    const received: number[] = [];
    await bus.subscribe("topic", (message) => void received.push(message.byteLength));
    const large = Buffer.alloc(MAX_BUS_MESSAGE + 1);
    for (let n = 0; n < 3; n++) await stranger.publish(`${nodes.epoch}.topic`, large);
    await untilReceived(bus, "topic");
    expect(received).not.toContain(large.byteLength);
    expect(nodes.log.lines).toEqual([
      "another client of Redis publishes messages that no node sends; they are dropped",
    ]);
  });

  test("a closed bus leaves no connection behind", async () => {
    const { server, bus } = await startBus();
    const admin = connectTo(server.url);
    const clients = async () => String(await admin.call("CLIENT", "LIST")).match(/^id=/gm)!.length;
    expect(await clients()).toBeGreaterThan(2);
    await bus.close();
    while ((await clients()) > 1);
  });
});
