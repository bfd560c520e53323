import { expect, test } from "vitest";
import { IdempotentCommands, type Identity } from "../../../src/gateway/idempotent-commands.ts";
import { AppError } from "../../../src/protocol/errors.ts";

const identity = { caller: { id: "ann" }, commandId: "key", bodyHash: "body", mayBeRepeat: true } as Identity;
const refuse = () => Promise.reject(new AppError("session_not_found"));

/** Commands whose store has these receipts at one look after the other. */
const commandsWith = (...looks: { bodyHash: string; reply: string }[][]) =>
  new IdempotentCommands({ store: { findReceipts: async () => looks.shift() ?? [] } } as never);

const receipt = { bodyHash: "body", reply: '{"ok":true,"sessionId":"a"}' };

test("a repeat gets the first answer, and nothing is planned for it", async () => {
  const plan = () => Promise.reject(new Error("planned"));
  expect(await commandsWith([receipt]).carryOut(identity, plan)).toMatchObject({ sessionId: "a" });
});

test("a write that is refused because its concurrent repeat took effect gets the answer of that", async () => {
  expect(await commandsWith([], [receipt]).carryOut(identity, refuse)).toMatchObject({ sessionId: "a" });
  await expect(commandsWith([], []).carryOut(identity, refuse)).rejects.toThrow(new AppError("session_not_found"));
});
