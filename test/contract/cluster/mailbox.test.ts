import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { type Dispatch, Mailbox } from "../../../src/cluster/mailbox.ts";
import { AppError, type ErrorCode } from "../../../src/protocol/errors.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { RedisPlace } from "../../support/servers/redis-place.ts";
import { REDIS } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { type BusSubject, decode, encode } from "../bus/bus-contract.ts";

const TOPIC = "floors";
const DEADLINE_MS = 5_000;
const ASK_AGAIN_MS = 500;
const NONSENSE = ["nonsense", "null", "7", "{}"];

/** A node: its mailbox, and the messages that it publishes. */
interface MailNode {
  mailbox: Mailbox;
  bus: UnreliableBus;
  clock: VirtualClock;
}

/**
 * The contract of a mailbox over every bus, over one that loses and repeats messages or is away, for commands in
 * pieces, and for a node that stops.
 */
function mailboxContract(name: string, open: () => Promise<BusSubject>): void {
  describe(`mailbox over ${name}`, () => {
    let subject: BusSubject;
    let asker: MailNode;
    let server: MailNode;
    let nodes: MailNode[];
    let ids = 0;

    async function startNode(dispatch?: Dispatch): Promise<MailNode> {
      const bus = new UnreliableBus(await subject.connect());
      const clock = new VirtualClock();
      const newId = () => `id${++ids}`;
      const mailbox = new Mailbox({ bus, clock, newId, nodeId: newId(), topicOf: () => TOPIC });
      if (dispatch) mailbox.serve(dispatch, () => true);
      await mailbox.start();
      const node = { mailbox, bus, clock };
      nodes.push(node);
      return node;
    }

    beforeEach(async () => {
      subject = await open();
      nodes = [];
      asker = await startNode();
      server = await startNode();
    });
    afterEach(async () => {
      for (const { mailbox } of nodes) mailbox.stop();
      await subject.close();
    });

    /** Move the clock of every node. */
    const pass = async (ms: number) => {
      await server.clock.advance(ms);
      await asker.clock.advance(ms);
    };

    const envelopeOf = (commandId = `command${++ids}`): Envelope => ({
      floorId: "u:ann" as FloorId,
      caller: "ann",
      commandId,
      bodyHash: "hash",
      timeoutAt: asker.clock.now() + DEADLINE_MS,
      command: { type: "floor.what_if", agentId: "music" },
    });

    /** Serve at `server`: answer with the command's id, and record the commands. */
    async function serveAll(answer: Dispatch = async ({ commandId }) => replyOf(commandId)) {
      const served: Envelope[] = [];
      let wake = () => {};
      const subscription = await server.mailbox.serveTopic(TOPIC, (envelope) => {
        served.push(envelope);
        wake();
        return answer(envelope);
      });
      const until = async (count: number) => {
        while (served.length < count) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      };
      return { served, until, subscription };
    }

    const replyOf = (commandId: string): Reply => ({ ok: true, messageId: commandId as never });
    const failureOf = (asked: Promise<Reply>): Promise<AppError> =>
      asked.then(
        () => expect.unreachable("it was answered"),
        (error) => error,
      );
    const ask = (envelope = envelopeOf()) => asker.mailbox.send(envelope);

    /** A node that serves the floor, and what it serves. */
    async function startNear() {
      const served: Envelope[] = [];
      const near = await startNode(async (envelope) => {
        served.push(envelope);
        return replyOf("here");
      });
      return { near, served };
    }

    /** A command that is answered. */
    async function exchange(envelope = envelopeOf()): Promise<Envelope> {
      expect(await ask(envelope)).toEqual(replyOf(envelope.commandId));
      return envelope;
    }

    test("a request is answered by the node that serves the floor, gets there unchanged, and leaves no timer", async () => {
      const { served } = await serveAll();
      expect(served).toEqual([await exchange()]);
      expect(asker.clock.timerCount).toBe(0);
    });

    test("a refusal is an answer, and has its facts", async () => {
      const refusal: Reply = { ok: false, code: "rejected", message: "later", facts: { decision: { rule: 5 } } };
      await serveAll(async () => refusal);
      expect(await ask()).toEqual(refusal);
    });

    test.each<ErrorCode>(["busy", "unavailable", "internal", "idempotency_mismatch"])(
      "the error %s is thrown to the caller if the serving node throws it",
      async (code) => {
        await serveAll(() => Promise.reject(new AppError(code, "for this reason")));
        expect(await failureOf(ask())).toMatchObject({ code, message: "for this reason" });
      },
    );

    test("any other failure of the owner is internal, without its cause", async () => {
      for (const serve of [
        () => Promise.reject(new Error("the password is 1234")),
        () => {
          throw new Error("the password is 1234");
        },
      ]) {
        const { subscription } = await serveAll(serve);
        const error = await failureOf(ask());
        expect(error).toMatchObject({ code: "internal", message: new AppError("internal").message });
        subscription.end();
      }
    });

    test("an unanswered request is unavailable when its deadline has passed, and not before", async () => {
      const asked = failureOf(ask());
      let isOver = false;
      void asked.then(() => {
        isOver = true;
      });
      await asker.clock.advance(DEADLINE_MS - 1);
      expect(isOver).toBe(false);
      await asker.clock.advance(1);
      expect((await asked).code).toBe("unavailable");
    });

    test("a lost request is repeated unchanged", async () => {
      const { served } = await serveAll();
      asker.bus.fates.push("lose", "lose");
      const envelope = envelopeOf();
      const asked = ask(envelope);
      await pass(2 * ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
    });

    test("a lost answer is requested again: the serving node gets the same command twice", async () => {
      const { served, until } = await serveAll();
      server.bus.fates.push("lose");
      const envelope = envelopeOf();
      const asked = ask(envelope);
      await until(1);
      await pass(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope, envelope]);
    });

    test("a message that arrives twice, in either direction, disturbs neither its exchange nor the next one", async () => {
      const { until } = await serveAll();
      asker.bus.fates.push("repeat");
      server.bus.fates.push("repeat", "repeat");
      await exchange();
      await until(2);
      await exchange();
    });

    test("answers that arrive in another order reach the right requests", async () => {
      await serveAll();
      asker.bus.fates.push("delay", "delay", "delay");
      const envelopes = [envelopeOf(), envelopeOf(), envelopeOf()];
      const asked = envelopes.map((envelope) => ask(envelope));
      await asker.bus.deliverReversed();
      expect(await Promise.all(asked)).toEqual(envelopes.map(({ commandId }) => replyOf(commandId)));
    });

    test("two nodes that send the same request each get their own answer", async () => {
      const third = await startNode();
      let count = 0;
      await serveAll(async () => replyOf(`answer${++count}`));
      const envelope = envelopeOf("shared");
      const answers = [await ask(envelope), await third.mailbox.send(envelope)];
      expect(answers).toEqual([replyOf("answer1"), replyOf("answer2")]);
    });

    test("an answer that arrives after the deadline is dropped", async () => {
      const gate = Promise.withResolvers<Reply>();
      const { until } = await serveAll(() => gate.promise);
      const asked = failureOf(ask());
      await until(1);
      await asker.clock.advance(DEADLINE_MS);
      expect((await asked).code).toBe("unavailable");
      gate.resolve(replyOf("late"));
      expect(await ask()).toEqual(replyOf("late"));
    });

    test.each([
      ["agree", 0],
      ["differ: the owner's is ahead", 600_000],
      ["differ: the owner's is behind", -600_000],
    ])("a message that arrives after its deadline is never served, if the clocks %s", async (_, byMs) => {
      const { served } = await serveAll();
      server.clock.jump(byMs);
      asker.bus.fates.push(...Array.from({ length: DEADLINE_MS / ASK_AGAIN_MS + 1 }, () => "delay" as const));
      const asked = failureOf(ask());
      await pass(DEADLINE_MS + 1);
      expect((await asked).code).toBe("unavailable");
      asker.bus.fates.length = 0;
      await asker.bus.deliverReversed();
      const next = await exchange();
      expect(served.map(({ commandId }) => commandId)).toEqual([next.commandId]);
    });

    test.each([600_000, -600_000])(
      "a request is answered if the owner's clock differs by %i ms, and has the time that the sender gave it",
      async (byMs) => {
        const { served } = await serveAll();
        server.clock.jump(byMs);
        const envelope = await exchange();
        expect(served).toEqual([{ ...envelope, timeoutAt: server.clock.now() + DEADLINE_MS }]);
      },
    );

    test("a request that waited long on the bus is begun once its sender confirms that it still waits", async () => {
      const { served } = await serveAll();
      asker.bus.fates.push("delay", "lose");
      const envelope = envelopeOf();
      const asked = ask(envelope);
      server.clock.jump(-600_000);
      await pass(ASK_AGAIN_MS);
      await asker.bus.deliverReversed();
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toHaveLength(1);
    });

    test("a command of a newer release is unknown: it is unavailable, and not served", async () => {
      const { served } = await serveAll();
      const command = { type: "floor.fly", height: 3 } as unknown as Envelope["command"];
      expect((await failureOf(ask({ ...envelopeOf(), command }))).code).toBe("unavailable");
      expect(served).toEqual([]);
    });

    test("a malformed message gets no answer, and later messages are served", async () => {
      const { served } = await serveAll();
      const replies: string[] = [];
      await server.bus.subscribe("elsewhere", (message) => void replies.push(decode(message)));
      const incomplete = ['{"replyTo":7,"askId":"a"}', '{"replyTo":"elsewhere"}'];
      for (const text of ["", ...NONSENSE, "[]", ...incomplete]) await asker.bus.publish(TOPIC, encode(text));
      await asker.bus.publish(TOPIC, Uint8Array.of(0xff, 0xfe, 0));
      expect(served).toEqual([await exchange()]);
      expect(replies).toEqual([]);
    });

    test("an answer that cannot be parsed is ignored, and the request continues until a valid one arrives", async () => {
      const received = new Promise<string>((resolve) => {
        void server.bus.subscribe(TOPIC, (message) => resolve(decode(message)));
      });
      asker.bus.fates.push("repeat");
      const envelope = envelopeOf();
      const asked = ask(envelope);
      const { replyTo, askId } = JSON.parse(await received);
      const outcomes = [undefined, {}, { reply: { ok: "perhaps" } }, { error: { code: "no_such_code" } }];
      const answers = [...NONSENSE, ...outcomes.map((outcome) => JSON.stringify({ askId, outcome }))];
      for (const text of answers) await server.bus.publish(replyTo, encode(text));
      await serveAll();
      await asker.clock.advance(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
    });

    test("a request for a floor of this node is served here, and nothing is published", async () => {
      const { near, served } = await startNear();
      near.bus.fates.push("lose");
      const envelope = envelopeOf();
      expect(await near.mailbox.send(envelope)).toEqual(replyOf("here"));
      expect(served).toEqual([envelope]);
      expect(near.bus.fates).toEqual(["lose"]);
      await near.clock.advance(DEADLINE_MS);
      expect(near.clock.timerCount).toBe(0);
    });

    test("a request for a floor of this node has the same deadline and the same failures", async () => {
      const never = await startNode(() => new Promise<Reply>(() => {}));
      const asked = failureOf(never.mailbox.send(envelopeOf()));
      await never.clock.advance(DEADLINE_MS);
      expect((await asked).code).toBe("unavailable");
      for (const [thrown, code] of [
        [new AppError("busy"), "busy"],
        [new Error("broken"), "internal"],
      ] as const) {
        const rejects = await startNode(() => Promise.reject(thrown));
        const throws = await startNode(() => {
          throw thrown;
        });
        for (const { mailbox, clock } of [rejects, throws]) {
          expect(await failureOf(mailbox.send(envelopeOf()))).toMatchObject({ code });
          await clock.advance(DEADLINE_MS);
          expect(clock.timerCount).toBe(0);
        }
      }
    });

    test("a command too large for one message travels in several, and so does its answer", async () => {
      const text = "五ab\u0001".repeat(60_000);
      const busy = ({ commandId }: Envelope) => ({
        ok: false as const,
        code: "busy" as const,
        facts: { commandId, text },
      });
      const { served } = await serveAll(async (envelope) => busy(envelope));
      const envelopes = [envelopeOf(), envelopeOf(), envelopeOf()].map((envelope) => ({
        ...envelope,
        command: { type: "floor.what_if" as const, agentId: `${envelope.commandId}${text}` },
      }));
      const replies = await Promise.all(envelopes.map((envelope) => ask(envelope)));
      expect(replies).toEqual(envelopes.map(busy));
      expect(served).toEqual(envelopes);
    });

    test("a piece that was lost, repeated or delayed is recovered by the repeat of the command", async () => {
      const { served } = await serveAll();
      asker.bus.fates.push("repeat", "lose", "delay");
      const command = { type: "floor.what_if" as const, agentId: "a".repeat(250_000) };
      const envelope = { ...envelopeOf(), command };
      const asked = ask(envelope);
      await pass(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      await asker.bus.deliverReversed();
      const next = await exchange();
      expect(served).toEqual([envelope, next]);
    });

    test("a command too large for several messages is refused, and an answer too large is internal", async () => {
      const agentId = "a".repeat(5_000_000);
      const command = { type: "floor.what_if" as const, agentId };
      expect((await failureOf(ask({ ...envelopeOf(), command }))).code).toBe("too_large");
      await serveAll(async () => ({ ok: false, code: "busy", facts: { agentId } }));
      expect((await failureOf(ask())).code).toBe("internal");
      expect(asker.clock.timerCount).toBe(0);
    });

    test("malformed pieces are ignored, and later commands are served", async () => {
      const { served } = await serveAll();
      const nonsense = ["#", "#\n", "#a 0/0\n{}", "#a 2/2\n{}", "#a 0/99\n{}", "#a 0/2\n{}", "#a 1/3\n{}", "#a 1/2\n}"];
      for (const text of nonsense) await asker.bus.publish(TOPIC, encode(text));
      expect(served).toEqual([await exchange()]);
    });

    test("while the bus is away, a request fails at once with unavailable and sends nothing; afterwards it works again", async () => {
      const { served } = await serveAll();
      asker.bus.goAway();
      expect((await failureOf(ask())).code).toBe("unavailable");
      expect(asker.clock.timerCount).toBe(0);
      asker.bus.comeBack();
      expect(served).toEqual([await exchange()]);
    });

    test("a request in progress when the bus goes away is unavailable at once", async () => {
      const gate = Promise.withResolvers<Reply>();
      const { until } = await serveAll(() => gate.promise);
      const asked = failureOf(ask());
      await until(1);
      asker.bus.goAway();
      expect((await asked).code).toBe("unavailable");
      expect(asker.clock.timerCount).toBe(0);
      gate.resolve(replyOf("late"));
    });

    test("while the bus is away, a node's own floor refuses client commands but accepts reports and timers", async () => {
      const { near, served } = await startNear();
      near.bus.goAway();
      expect((await failureOf(near.mailbox.send(envelopeOf()))).code).toBe("unavailable");
      const { caller: _nobody, ...own } = envelopeOf();
      expect(await near.mailbox.send(own)).toEqual(replyOf("here"));
      expect(served).toEqual([own]);
    });

    test("a node that has stopped serving is not asked, and another node may serve", async () => {
      const first = await serveAll();
      first.subscription.end();
      const second = await serveAll();
      await exchange();
      expect([first.served.length, second.served.length]).toEqual([0, 1]);
    });

    test("a node that stops ends its waiting requests and leaves no timer", async () => {
      const asked = [failureOf(ask()), failureOf(ask())];
      asker.mailbox.stop();
      for (const failure of asked) expect((await failure).code).toBe("unavailable");
      expect(asker.clock.timerCount).toBe(0);
    });
  });
}

mailboxContract("the memory bus", async () => {
  const bus = new MemoryBus();
  return { connect: async () => bus, close: () => bus.close() };
});

describeWith([REDIS], "over Redis", (start) => {
  const server = serverOf(start);
  mailboxContract("Redis", async () => new RedisPlace(server().url));
});
