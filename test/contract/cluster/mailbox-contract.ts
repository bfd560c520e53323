import { describe, expect, test } from "vitest";
import { AppError, type ErrorCode } from "../../../src/protocol/errors.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { DEADLINE_MS, mailStage, TOPIC } from "../../support/nodes/mail-stage.ts";
import type { BusSubject } from "../bus/bus-contract.ts";

const ASK_AGAIN_MS = 500;

/** The contract of a mailbox over every bus, and over one that loses and repeats messages. */
export function mailboxContract(name: string, open: () => Promise<BusSubject>): void {
  describe(`mailbox over ${name}`, () => {
    const mail = mailStage(open);
    const { startNode, pass, envelopeOf, serveAll, replyOf, failureOf } = mail;

    test("a request is answered by the node that serves the floor, which gets the envelope unchanged", async () => {
      const { served } = await serveAll();
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
    });

    test("a refusal is an answer, and has its facts", async () => {
      const refusal: Reply = { ok: false, code: "rejected", message: "later", facts: { decision: { rule: 5 } } };
      await serveAll(async () => refusal);
      expect(await mail.asker.mailbox.send(envelopeOf())).toEqual(refusal);
    });

    test.each<ErrorCode>(["busy", "unavailable", "internal", "idempotency_mismatch"])(
      "the error %s is thrown to the caller if the serving node throws it",
      async (code) => {
        await serveAll(() => Promise.reject(new AppError(code, "for this reason")));
        expect(await failureOf(mail.asker.mailbox.send(envelopeOf()))).toMatchObject({
          code,
          message: "for this reason",
        });
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
        const error = await failureOf(mail.asker.mailbox.send(envelopeOf()));
        expect(error).toMatchObject({ code: "internal", message: new AppError("internal").message });
        subscription.end();
      }
    });

    test("an unanswered request is unavailable when its deadline has passed, and not before", async () => {
      const asked = failureOf(mail.asker.mailbox.send(envelopeOf()));
      let isOver = false;
      void asked.then(() => {
        isOver = true;
      });
      await mail.asker.clock.advance(DEADLINE_MS - 1);
      expect(isOver).toBe(false);
      await mail.asker.clock.advance(1);
      expect((await asked).code).toBe("unavailable");
    });

    test("a lost request is repeated unchanged", async () => {
      const { served } = await serveAll();
      mail.asker.bus.fates.push("lose", "lose");
      const envelope = envelopeOf();
      const asked = mail.asker.mailbox.send(envelope);
      await pass(2 * ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
    });

    test("a lost answer is requested again: the serving node gets the same command twice", async () => {
      const { served, until } = await serveAll();
      mail.server.bus.fates.push("lose");
      const envelope = envelopeOf();
      const asked = mail.asker.mailbox.send(envelope);
      await until(1);
      await pass(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope, envelope]);
    });

    test("a message that arrives twice, in either direction, is answered once", async () => {
      const { until } = await serveAll();
      mail.asker.bus.fates.push("repeat");
      mail.server.bus.fates.push("repeat", "repeat");
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      await until(2);
      const next = envelopeOf();
      expect(await mail.asker.mailbox.send(next)).toEqual(replyOf(next.commandId));
    });

    test("answers that arrive in another order reach the right requests", async () => {
      await serveAll();
      mail.asker.bus.fates.push("delay", "delay", "delay");
      const envelopes = [envelopeOf(), envelopeOf(), envelopeOf()];
      const asked = envelopes.map((envelope) => mail.asker.mailbox.send(envelope));
      await mail.asker.bus.deliverReversed();
      expect(await Promise.all(asked)).toEqual(envelopes.map(({ commandId }) => replyOf(commandId)));
    });

    test("two nodes that send the same request each get their own answer", async () => {
      const third = await startNode();
      let count = 0;
      await serveAll(async () => replyOf(`answer${++count}`));
      const envelope = envelopeOf("shared");
      const answers = [await mail.asker.mailbox.send(envelope), await third.mailbox.send(envelope)];
      expect(answers).toEqual([replyOf("answer1"), replyOf("answer2")]);
    });

    test("an answer that arrives after the deadline is dropped", async () => {
      const gate = Promise.withResolvers<Reply>();
      const { until } = await serveAll(() => gate.promise);
      const asked = failureOf(mail.asker.mailbox.send(envelopeOf()));
      await until(1);
      await mail.asker.clock.advance(DEADLINE_MS);
      expect((await asked).code).toBe("unavailable");
      gate.resolve(replyOf("late"));
      const next = envelopeOf();
      const answered = mail.asker.mailbox.send(next);
      expect(await answered).toEqual(replyOf("late"));
    });

    test.each([
      ["agree", 0],
      ["differ: the owner's is ahead", 600_000],
      ["differ: the owner's is behind", -600_000],
    ])("a message that arrives after its deadline is never served, if the clocks %s", async (_, byMs) => {
      const { served } = await serveAll();
      mail.server.clock.jump(byMs);
      mail.asker.bus.fates.push(...Array.from({ length: DEADLINE_MS / ASK_AGAIN_MS + 1 }, () => "delay" as const));
      const asked = failureOf(mail.asker.mailbox.send(envelopeOf()));
      await pass(DEADLINE_MS + 1);
      expect((await asked).code).toBe("unavailable");
      mail.asker.bus.fates.length = 0;
      await mail.asker.bus.deliverReversed();
      const next = envelopeOf();
      expect(await mail.asker.mailbox.send(next)).toEqual(replyOf(next.commandId));
      expect(served.map(({ commandId }) => commandId)).toEqual([next.commandId]);
    });

    test.each([600_000, -600_000])(
      "a request is answered if the owner's clock differs by %i ms, and has the time that the sender gave it",
      async (byMs) => {
        const { served } = await serveAll();
        mail.server.clock.jump(byMs);
        const envelope = envelopeOf();
        expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
        expect(served).toEqual([{ ...envelope, deadline: mail.server.clock.now() + DEADLINE_MS }]);
      },
    );

    test("a request that waited long on the bus is begun once its sender confirms that it still waits", async () => {
      const { served } = await serveAll();
      mail.asker.bus.fates.push("delay", "lose");
      const envelope = envelopeOf();
      const asked = mail.asker.mailbox.send(envelope);
      mail.server.clock.jump(-600_000);
      await pass(ASK_AGAIN_MS);
      await mail.asker.bus.deliverReversed();
      expect(await asked).toEqual(replyOf(envelope.commandId));
      expect(served).toHaveLength(1);
    });

    test("a command of a newer release is unknown: it is unavailable, and not served", async () => {
      const { served } = await serveAll();
      const command = { type: "floor.fly", height: 3 } as unknown as Envelope["command"];
      expect((await failureOf(mail.asker.mailbox.send({ ...envelopeOf(), command }))).code).toBe("unavailable");
      expect(served).toEqual([]);
    });

    test("a malformed message gets no answer, and later messages are served", async () => {
      const { served } = await serveAll();
      const replies: string[] = [];
      await mail.server.bus.subscribe("elsewhere", (message) => void replies.push(new TextDecoder().decode(message)));
      const nonsense = [
        "",
        "nonsense",
        "null",
        "7",
        "[]",
        "{}",
        '{"replyTo":7,"askId":"a"}',
        '{"replyTo":"elsewhere"}',
      ];
      for (const text of nonsense) await mail.asker.bus.publish(TOPIC, new TextEncoder().encode(text));
      await mail.asker.bus.publish(TOPIC, Uint8Array.of(0xff, 0xfe, 0));
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
      expect(replies).toEqual([]);
    });

    test("an answer that cannot be parsed is ignored, and the request continues until a valid one arrives", async () => {
      const received = new Promise<string>((resolve) => {
        void mail.server.bus.subscribe(TOPIC, (message) => resolve(new TextDecoder().decode(message)));
      });
      mail.asker.bus.fates.push("repeat");
      const envelope = envelopeOf();
      const asked = mail.asker.mailbox.send(envelope);
      const { replyTo, askId } = JSON.parse(await received);
      const answers = [
        "nonsense",
        "null",
        "7",
        "{}",
        JSON.stringify({ askId }),
        JSON.stringify({ askId, outcome: {} }),
      ];
      answers.push(JSON.stringify({ askId, outcome: { reply: { ok: "perhaps" } } }));
      answers.push(JSON.stringify({ askId, outcome: { error: { code: "no_such_code" } } }));
      for (const text of answers) await mail.server.bus.publish(replyTo, new TextEncoder().encode(text));
      await serveAll();
      await mail.asker.clock.advance(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
    });

    test("a request for a floor of this node is served here, and nothing is published", async () => {
      const served: Envelope[] = [];
      const near = await startNode(() => async (envelope) => {
        served.push(envelope);
        return replyOf("here");
      });
      near.bus.fates.push("lose");
      const envelope = envelopeOf();
      expect(await near.mailbox.send(envelope)).toEqual(replyOf("here"));
      expect(served).toEqual([envelope]);
      expect(near.bus.fates).toEqual(["lose"]);
      await near.clock.advance(DEADLINE_MS);
      expect(near.clock.timerCount).toBe(0);
    });

    test("a request for a floor of this node has the same deadline and the same failures", async () => {
      const never = await startNode(() => () => new Promise<Reply>(() => {}));
      const asked = failureOf(never.mailbox.send(envelopeOf()));
      await never.clock.advance(DEADLINE_MS);
      expect((await asked).code).toBe("unavailable");
      for (const [thrown, code] of [
        [new AppError("busy"), "busy"],
        [new Error("broken"), "internal"],
      ] as const) {
        const rejects = await startNode(() => () => Promise.reject(thrown));
        const throws = await startNode(() => () => {
          throw thrown;
        });
        for (const { mailbox, clock } of [rejects, throws]) {
          expect(await failureOf(mailbox.send(envelopeOf()))).toMatchObject({ code });
          await clock.advance(DEADLINE_MS);
          expect(clock.timerCount).toBe(0);
        }
      }
    });
  });
}
