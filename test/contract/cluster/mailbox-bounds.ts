import { describe, expect, test } from "vitest";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { mailStage, TOPIC } from "../../support/nodes/mail-stage.ts";
import type { BusSubject } from "../bus/bus-contract.ts";

const ASK_AGAIN_MS = 500;

/** The contract of a mailbox for commands in pieces, for a bus that is away, and for a node that stops. */
export function mailboxBounds(name: string, open: () => Promise<BusSubject>): void {
  describe(`mailbox over ${name}`, () => {
    const mail = mailStage(open);
    const { startNode, pass, envelopeOf, serveAll, replyOf, failureOf } = mail;

    test("a command too large for one message travels in several, and so does its answer", async () => {
      const { served } = await serveAll(async ({ commandId }) => ({
        ok: false,
        code: "busy",
        facts: { commandId, text },
      }));
      const text = "五ab\u0001".repeat(60_000);
      const envelopes = [envelopeOf(), envelopeOf(), envelopeOf()].map((envelope) => ({
        ...envelope,
        command: { type: "floor.what_if" as const, agentId: `${envelope.commandId}${text}` },
      }));
      const replies = await Promise.all(envelopes.map((envelope) => mail.asker.mailbox.send(envelope)));
      expect(replies).toEqual(
        envelopes.map(({ commandId }) => ({ ok: false, code: "busy", facts: { commandId, text } })),
      );
      expect(served).toEqual(envelopes);
    });

    test("a piece that was lost, repeated or delayed is recovered by the repeat of the command", async () => {
      const { served } = await serveAll();
      mail.asker.bus.fates.push("repeat", "lose", "delay");
      const command = { type: "floor.what_if" as const, agentId: "a".repeat(250_000) };
      const envelope = { ...envelopeOf(), command };
      const asked = mail.asker.mailbox.send(envelope);
      await pass(ASK_AGAIN_MS);
      expect(await asked).toEqual(replyOf(envelope.commandId));
      await mail.asker.bus.deliverReversed();
      const next = envelopeOf();
      expect(await mail.asker.mailbox.send(next)).toEqual(replyOf(next.commandId));
      expect(served).toEqual([envelope, next]);
    });

    test("a command too large for several messages is refused, and an answer too large is internal", async () => {
      const agentId = "a".repeat(5_000_000);
      const command = { type: "floor.what_if" as const, agentId };
      expect((await failureOf(mail.asker.mailbox.send({ ...envelopeOf(), command }))).code).toBe("too_large");
      await serveAll(async () => ({ ok: false, code: "busy", facts: { agentId } }));
      expect((await failureOf(mail.asker.mailbox.send(envelopeOf()))).code).toBe("internal");
      expect(mail.asker.clock.timerCount).toBe(0);
    });

    test("malformed pieces are ignored, and later commands are served", async () => {
      const { served } = await serveAll();
      const nonsense = ["#", "#\n", "#a 0/0\n{}", "#a 2/2\n{}", "#a 0/99\n{}", "#a 0/2\n{}", "#a 1/3\n{}", "#a 1/2\n}"];
      for (const text of nonsense) await mail.asker.bus.publish(TOPIC, new TextEncoder().encode(text));
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
    });

    test("while the bus is away, a request fails at once with unavailable and sends nothing; afterwards it works again", async () => {
      const { served } = await serveAll();
      mail.asker.bus.goAway();
      expect((await failureOf(mail.asker.mailbox.send(envelopeOf()))).code).toBe("unavailable");
      expect(mail.asker.clock.timerCount).toBe(0);
      mail.asker.bus.comeBack();
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      expect(served).toEqual([envelope]);
    });

    test("a request in progress when the bus goes away is unavailable at once", async () => {
      const gate = Promise.withResolvers<Reply>();
      const { until } = await serveAll(() => gate.promise);
      const asked = failureOf(mail.asker.mailbox.send(envelopeOf()));
      await until(1);
      mail.asker.bus.goAway();
      expect((await asked).code).toBe("unavailable");
      expect(mail.asker.clock.timerCount).toBe(0);
      gate.resolve(replyOf("late"));
    });

    test("while the bus is away, a node's own floor refuses client commands but accepts reports and timers", async () => {
      const served: Envelope[] = [];
      const near = await startNode(() => async (envelope) => {
        served.push(envelope);
        return replyOf("here");
      });
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
      const envelope = envelopeOf();
      expect(await mail.asker.mailbox.send(envelope)).toEqual(replyOf(envelope.commandId));
      expect([first.served.length, second.served.length]).toEqual([0, 1]);
    });

    test("a node that stops ends its waiting requests and leaves no timer", async () => {
      const asked = [
        failureOf(mail.asker.mailbox.send(envelopeOf())),
        failureOf(mail.asker.mailbox.send(envelopeOf())),
      ];
      mail.asker.mailbox.stop();
      for (const failure of asked) expect((await failure).code).toBe("unavailable");
      expect(mail.asker.clock.timerCount).toBe(0);
    });

    test("an answered request leaves no timer", async () => {
      await serveAll();
      await mail.asker.mailbox.send(envelopeOf());
      expect(mail.asker.clock.timerCount).toBe(0);
    });
  });
}
