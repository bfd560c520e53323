import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { MemoryTickets } from "../../../src/bus/memory-tickets.ts";
import type { Caller } from "../../../src/gateway/access/caller.ts";
import { Gatekeeper } from "../../../src/gateway/access/gatekeeper.ts";
import { Tickets } from "../../../src/gateway/access/tickets.ts";
import type { Verified } from "../../../src/gateway/access/verifier.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

/** The parts of a request that the gatekeeper reads. */
function request(headers: Record<string, string>, query: Record<string, string> = {}): FastifyRequest {
  const routeOptions = { config: { isStream: true } };
  const raw = { rawHeaders: Object.entries(headers).flat() };
  return { method: "GET", headers, raw, query, routeOptions, caller: undefined } as unknown as FastifyRequest;
}

function stage(verify: (token: string) => Verified | undefined) {
  const clock = new VirtualClock();
  const asked: string[] = [];
  const whole = { isWithdrawn: () => false, isPublished: async () => true, close() {} };
  const verifier = {
    ...whole,
    async verify(token: string) {
      asked.push(token);
      const verified = verify(token);
      if (!verified) throw new AppError("unauthorized");
      return verified;
    },
  };
  const never = async () => {};
  const guesses: FastifyRequest[] = [];
  const countRefused = async (refused: FastifyRequest) => void guesses.push(refused);
  const limiter = { countAddress: never, checkRefused: never, countRefused, countOwner: never };
  const tickets = new Tickets(new MemoryTickets(clock), clock);
  const gatekeeper = new Gatekeeper({ verifier, tickets, limiter, clock });
  const enter = async (headers: Record<string, string>, query?: Record<string, string>): Promise<Caller> => {
    const entering = request(headers, query);
    await gatekeeper.authenticate(entering);
    return entering.caller!;
  };
  return {
    clock,
    asked,
    guesses,
    tickets,
    enter,
    show: (token: string) => enter({ authorization: `Bearer ${token}` }),
  };
}

test("an accepted token is not verified again for a minute", async () => {
  const { clock, asked, show } = stage(() => ({ ownerId: "ann", isOperator: false }));
  const caller = { id: "owner:ann", ownerId: "ann", isOperator: false, expiresAt: undefined };
  expect(await show("a")).toEqual(caller);
  await clock.advance(59_999);
  expect(await show("a")).toEqual(caller);
  expect(asked).toEqual(["a"]);
  await clock.advance(1);
  await show("a");
  expect(asked).toEqual(["a", "a"]);
});

test("an accepted token is not accepted beyond its expiry", async () => {
  const { clock, show } = stage(() => ({ ownerId: "ann", isOperator: false, expiresAt: clock.now() + 5_000 }));
  const until = clock.now() + 5_000;
  expect((await show("a")).expiresAt).toBe(until);
  await clock.advance(4_999);
  expect((await show("a")).expiresAt).toBe(until);
  await clock.advance(1);
  expect((await show("a")).expiresAt).toBe(until + 5_000);
});

test("an accepted token is not mistaken for another, and an invalid one is verified each time", async () => {
  const { asked, show } = stage((token) => (token === "right" ? { ownerId: "ann", isOperator: true } : undefined));
  await show("right");
  for (const wrong of ["right1", "Right", "wrong", "wrong"]) {
    await expect(show(wrong)).rejects.toMatchObject({ code: "unauthorized" });
  }
  expect(asked).toEqual(["right", "right1", "Right", "wrong", "wrong"]);
});

test("a token that cannot be verified at the moment is unavailable, which counts as no guess, and accepted afterwards", async () => {
  let isAway = true;
  const { asked, guesses, show } = stage((token) => {
    if (isAway) throw new AppError("unavailable");
    return token === "a" ? { ownerId: "ann", isOperator: false } : undefined;
  });
  await expect(show("a")).rejects.toMatchObject({ code: "unavailable" });
  expect(guesses).toEqual([]);
  isAway = false;
  expect((await show("a")).ownerId).toBe("ann");
  expect(asked).toEqual(["a", "a"]);
  await expect(show("b")).rejects.toMatchObject({ code: "unauthorized" });
  expect(guesses.length).toBe(1);
});

test("the number of remembered tokens is limited: the least recently used one is dropped", async () => {
  const { asked, show } = stage((ownerId) => ({ ownerId, isOperator: false }));
  for (let index = 0; index < 10_000; index++) await show(`token-${index}`);
  await show("token-0");
  await show("one-more");
  asked.length = 0;
  await show("token-0");
  await show("token-1");
  expect(asked).toEqual(["token-1"]);
});

const ann: Caller = { id: "owner:ann", ownerId: "ann", isOperator: false };

test("a ticket authenticates the caller that it was given to, for half a minute and once", async () => {
  const { clock, tickets, enter } = stage(() => undefined);
  const [first, late] = [await tickets.issue(ann), await tickets.issue(ann)];
  expect(first.expiresAt).toBe(clock.now() + 30_000);
  await clock.advance(29_999);
  expect(await enter({}, { ticket: first.ticket })).toEqual(ann);
  await expect(enter({}, { ticket: first.ticket })).rejects.toMatchObject({ code: "unauthorized" });
  await clock.advance(1);
  await expect(enter({}, { ticket: late.ticket })).rejects.toMatchObject({ code: "unauthorized" });
});

test("a ticket is valid no longer than its token, and says when that expires", async () => {
  const { clock, tickets, enter } = stage(() => undefined);
  const brief = { ...ann, expiresAt: clock.now() + 10_000 };
  const [first, late] = [await tickets.issue(brief), await tickets.issue(brief)];
  expect(first.expiresAt).toBe(brief.expiresAt);
  expect(await enter({}, { ticket: first.ticket })).toEqual(brief);
  await clock.advance(10_000);
  await expect(enter({}, { ticket: late.ticket })).rejects.toMatchObject({ code: "unauthorized" });
});
