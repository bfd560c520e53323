import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import Fastify from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import { expect, onTestFinished, test } from "vitest";
import { RedisTickets } from "../../../src/bus/redis-tickets.ts";
import { limitRates } from "../../../src/gateway/access/rate-limiter.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { connectTo } from "../../support/servers/redis-place.ts";
import { OWN_REDIS } from "../../support/servers/redis-server.ts";
import { perTest } from "../../support/servers/shared-server.ts";

const DAY_MS = 86_400_000;
const LIMITS = { owner: { max: 4, windowMs: DAY_MS }, refused: { max: 2, windowMs: DAY_MS } };

describeWith([OWN_REDIS], "requests counted over Redis", (startServer) => {
  const start = perTest(startServer);

  /**
   * A gateway that answers with the result of its limits; every caller is Ann. A patient one waits for its counters
   * without a timeout, so that a busy machine gives the same result.
   */
  async function openGateway(url: string, epoch: string, { isPatient = false } = {}) {
    const own = new SystemClock();
    const clock = isPatient ? { now: () => own.now(), after: () => ({ cancel() {} }) } : own;
    const tickets = await RedisTickets.open({ urls: [url], epoch, clock });
    const app = Fastify().withTypeProvider<ZodTypeProvider>();
    app.decorateRequest("caller", undefined);
    const counters = isPatient ? connectTo(url) : tickets.connection;
    const shared = { counters, prefix: `${epoch}.rate.` };
    const limiter = await limitRates(app, { limits: LIMITS, shared, stopwatch: clock });
    app.setErrorHandler((error, _, reply) => reply.code(429).send((error as unknown as { code: string }).code));
    app.get("/", async (request) => {
      request.caller = { id: "owner:ann", ownerId: "ann", isOperator: false };
      await limiter.countOwner(request);
      return "in";
    });
    app.get("/guess", async (request) => {
      await limiter.checkRefused(request);
      await limiter.countRefused(request);
      return "refused";
    });
    onTestFinished(async () => {
      tickets.close();
      await app.close();
    });
    return { ask: async (path = "/") => (await app.inject(path)).body, tickets, counters };
  }

  test("all gateways of a store count requests together, separately from other stores", async () => {
    const { url } = await start();
    const epoch = randomUUID();
    const patient = { isPatient: true };
    const [one, other] = [await openGateway(url, epoch, patient), await openGateway(url, epoch, patient)];
    const answers: string[] = [];
    for (let index = 0; index < 3; index++) answers.push(await one.ask(), await other.ask());
    expect(answers).toEqual(["in", "in", "in", "in", "too_many_requests", "too_many_requests"]);
    const guesses = [await one.ask("/guess"), await other.ask("/guess"), await one.ask("/guess")];
    expect(guesses).toEqual(["refused", "refused", "too_many_requests"]);
    expect(await (await openGateway(url, randomUUID(), patient)).ask()).toBe("in");
    const keys = await one.counters.keys("*");
    expect(keys.filter((key) => !key.startsWith(`${epoch}.rate.`) && key.includes(epoch))).toEqual([]);
    for (const key of keys) expect(await one.counters.pttl(key)).toBeGreaterThan(0);
  });

  test("requests are counted by a busy gateway, which reads the answer of the counters late", async () => {
    const gateway = await openGateway((await start()).url, randomUUID());
    const answers: string[] = [];
    for (let index = 0; index < 5; index++) {
      const asking = gateway.ask();
      // The counters have been asked, and answer while this process is busy.
      await setImmediate();
      const end = performance.now() + 200;
      while (performance.now() < end);
      answers.push(await asking);
    }
    expect(answers).toEqual(["in", "in", "in", "in", "too_many_requests"]);
  });

  test("requests are admitted while the shared counters are away", async () => {
    const server = await start();
    const gateway = await openGateway(server.url, randomUUID());
    const another = await openGateway(server.url, randomUUID());
    // On a busy machine the counters may time out, which admits that request.
    while ((await gateway.ask()) === "in");
    await gateway.tickets.connection.client("PAUSE", 3_000, "ALL");
    expect(await gateway.ask()).toBe("in");
    another.tickets.close();
    for (let index = 0; index < 6; index++) expect(await another.ask()).toBe("in");
  });
});
