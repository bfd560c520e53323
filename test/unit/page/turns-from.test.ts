import { expect, test } from "vitest";
import { turnsFrom } from "../../../page/session/copies/turns-from.ts";
import type { Message } from "../../../src/protocol/message.ts";

const message = (id: string, role: Message["role"], status: Message["status"] = "success") =>
  ({ id, role, status }) as Message;

test("a rollback counts the user's finished messages from the chosen one on, and no other messages", () => {
  const messages = [
    message("a", "user"),
    message("b", "assistant"),
    message("c", "user", "interrupted"),
    message("d", "assistant", "running"),
    message("e", "user"),
    message("f", "user", "queued"),
  ];
  expect(["a", "b", "c", "e", "f", "gone"].map((id) => turnsFrom(messages, id))).toEqual([3, 2, 2, 1, 0, 0]);
});
