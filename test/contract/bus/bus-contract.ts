import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Bus, MAX_BUS_MESSAGE } from "../../../src/bus/bus.ts";

/** A bus under test, as several nodes see it. */
export interface BusSubject {
  /** The bus of another node. */
  connect(): Promise<Bus>;
  /** Close all connections, and what they needed. */
  close(): Promise<void>;
}

export const encode = (text: string) => new TextEncoder().encode(text);
export const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** The contract of the port, for every bus. */
export function busContract(name: string, open: () => Promise<BusSubject>): void {
  describe(`bus: ${name}`, () => {
    let subject: BusSubject;
    let one: Bus;
    let other: Bus;
    beforeEach(async () => {
      subject = await open();
      one = await subject.connect();
      other = await subject.connect();
    });
    afterEach(() => subject.close());

    /** Subscribes to a topic; `until` awaits a message and returns those before it. */
    async function listen(bus: Bus, topic: string) {
      const received: string[] = [];
      let wake = () => {};
      const subscription = await bus.subscribe(topic, (message) => {
        received.push(decode(message));
        wake();
      });
      const until = async (last: string) => {
        while (!received.includes(last)) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      };
      return { received, until, subscription };
    }

    test("a bus delivers a message to every subscribed node, including the publisher's", async () => {
      const listeners = [await listen(one, "topic"), await listen(other, "topic")];
      await one.publish("topic", encode("hello"));
      for (const { received, until } of listeners) {
        await until("hello");
        expect(received).toEqual(["hello"]);
      }
    });

    test("a bus that keeps messages in the process delivers the object that was published", async () => {
      const sent = Object.assign(encode("hello"), { content: {} });
      const received = Promise.withResolvers<Uint8Array>();
      await other.subscribe("object", received.resolve);
      await one.publish("object", sent);
      expect((await received.promise) === sent).toBe(one.isLocal === true);
    });

    test("a bus carries bytes unchanged, up to 64 KiB", async () => {
      const bytes = Uint8Array.from({ length: MAX_BUS_MESSAGE }, (_, index) => index % 256);
      const received = Promise.withResolvers<Uint8Array>();
      await other.subscribe("bytes", received.resolve);
      await one.publish("bytes", bytes);
      expect(Buffer.from(await received.promise).equals(Buffer.from(bytes))).toBe(true);
    });

    test.each([
      ["separates topics, even if the name of one begins with another's", ["a", "a.b", "a.*", "A", "u:张三/后", "a b"]],
      ["carries many topics at once, each to its subscribers", Array.from({ length: 500 }, (_, n) => `many.${n}`)],
    ])("a bus %s", async (_, topics) => {
      const listeners = await Promise.all(topics.map((topic) => listen(other, topic)));
      for (const topic of topics) void one.publish(topic, encode(topic));
      for (const [index, { until }] of listeners.entries()) await until(topics[index]!);
      expect(listeners.map(({ received }) => received)).toEqual(topics.map((topic) => [topic]));
    });

    test("a bus delivers the messages of one publisher in the order in which they were published", async () => {
      const { received, until } = await listen(other, "order");
      const sent = Array.from({ length: 200 }, (_, index) => String(index));
      for (const text of sent) void one.publish("order", encode(text));
      await until("199");
      expect(received).toEqual(sent);
    });

    test("a bus never delivers within the call that publishes or subscribes", async () => {
      let isInside = false;
      const wasInside: boolean[] = [];
      const received = Promise.withResolvers<void>();
      await one.subscribe("later", () => {
        wasInside.push(isInside);
        received.resolve();
      });
      isInside = true;
      void one.publish("later", encode("x"));
      isInside = false;
      await received.promise;
      expect(wasInside).toEqual([false]);
    });

    test("publishing to a topic without subscribers is not an error, and nothing is kept for later subscribers", async () => {
      await one.publish("nobody", encode("early"));
      // Published afterwards: the first message was delivered or lost when this one arrives.
      const echo = await listen(one, "nobody");
      await one.publish("nobody", encode("echo"));
      await echo.until("echo");
      const { received, until } = await listen(other, "nobody");
      await one.publish("nobody", encode("late"));
      await until("late");
      expect(received).toEqual(["late"]);
    });

    test("a bus sends nothing to a subscriber that unsubscribed, and continues with the others", async () => {
      const [left, stays] = [await listen(other, "topic"), await listen(other, "topic")];
      await one.publish("topic", encode("first"));
      await left.until("first");
      left.subscription.end();
      left.subscription.end();
      await one.publish("topic", encode("second"));
      await stays.until("second");
      expect(left.received).toEqual(["first"]);
      expect(stays.received).toEqual(["first", "second"]);
    });

    test("a bus delivers everything published after a subscription is confirmed, the first time and again", async () => {
      for (let round = 0; round < 50; round++) {
        const first = await listen(other, "moment");
        await one.publish("moment", encode("1"));
        await first.until("1");
        first.subscription.end();
        const again = await listen(other, "moment");
        void one.publish("moment", encode("2"));
        await again.until("2");
        expect([...first.received, ...again.received]).toEqual(["1", "2"]);
        again.subscription.end();
      }
    });

    test("a bus treats the same listener twice as two subscriptions", async () => {
      const received: string[] = [];
      const listener = (message: Uint8Array) => void received.push(decode(message));
      const subscription = await other.subscribe("twice", listener);
      await other.subscribe("twice", listener);
      const witness = await listen(other, "twice");
      await one.publish("twice", encode("both"));
      await witness.until("both");
      subscription.end();
      await one.publish("twice", encode("one"));
      await one.publish("twice", encode("end"));
      await witness.until("end");
      expect(received).toEqual(["both", "both", "one", "end"]);
    });

    test("a bus allows listeners to subscribe and unsubscribe while they are called", async () => {
      const witness = await listen(other, "within");
      const received: string[] = [];
      const subscribed = Promise.withResolvers<unknown>();
      const subscription = await other.subscribe("within", (message) => {
        received.push(decode(message));
        subscription.end();
        subscribed.resolve(other.subscribe("within", (next) => void received.push(`again ${decode(next)}`)));
      });
      await one.publish("within", encode("1"));
      await subscribed.promise;
      await one.publish("within", encode("2"));
      await one.publish("within", encode("end"));
      await witness.until("end");
      expect(received).toEqual(["1", "again 2", "again end"]);
    });

    test("a bus reports that a topic has listeners, and, while it carries messages, that it is not away", async () => {
      const { subscription } = await listen(one, "heard");
      expect([one.hasSubscribers("heard"), one.isAway(), one.isAway("topic")]).toEqual([true, false, false]);
      subscription.end();
      // It stops reporting on request.
      for (const forget of [one.onAway(() => {}), one.onRecovered(() => {})]) {
        forget();
        forget();
      }
    });

    test("a closed bus delivers nothing more, and publishing to it still does not fail", async () => {
      const { received } = await listen(other, "end");
      await other.close();
      await one.publish("end", encode("too late"));
      await other.publish("end", encode("too late"));
      expect(received).toEqual([]);
    });
  });
}
