import type { FastifyInstance } from "fastify";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import { ByteBudget } from "./byte-budget.ts";
import { networkOf } from "./network-address.ts";

const NO_ROOM = "Too many large answers are not read; repeat with the same key.";

/** Limit the bytes of unread answers, for the node and for each address. */
export function boundAnswers(app: FastifyInstance): void {
  const { answerBytes: node, addressAnswerBytes: address, freeAnswerBytes: free } = BOUNDS;
  const budget = new ByteBudget({ node, address, free });
  app.addHook("onSend", (request, reply, payload, done) => {
    if (typeof payload !== "string" && !Buffer.isBuffer(payload)) return done(null, payload);
    // A UTF-16 unit takes at most three bytes.
    if (payload.length * 3 <= free) return done(null, payload);
    const loan = budget.open(() => networkOf(request.ip));
    if (!loan.growTo(Buffer.byteLength(payload))) {
      const { commandId } = request;
      return done(new AppError("busy", NO_ROOM, commandId === undefined ? {} : { facts: { commandId } }));
    }
    reply.raw.once("close", () => loan.close());
    done(null, payload);
  });
}
