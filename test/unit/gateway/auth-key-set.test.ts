import { expect, onTestFinished, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { openVerifier } from "../../../src/gateway/access/gatekeeper.ts";
import type { Verifier } from "../../../src/gateway/access/verifier.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { nowS, TokenIssuer } from "../../support/servers/token-issuer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

const MINUTE_MS = 60_000;

async function stage() {
  const issuer = await TokenIssuer.start();
  onTestFinished(() => issuer[Symbol.asyncDispose]());
  const clock = new VirtualClock({ now: Date.now() });
  const log = new KeptLog();
  const bus = new MemoryBus();
  const wallNow = () => clock.now();
  const options = { issuer: undefined, audience: undefined, clock, wallNow, log, bus, epoch: "test" };
  const open = async (): Promise<Verifier> => {
    const verifier = await openVerifier({ kind: "jwks", url: issuer.url }, options);
    onTestFinished(() => verifier.close());
    await issuer.whenFetched(1);
    return verifier;
  };
  /** An expiry one hour after the end of any test. */
  const exp = nowS() + 86_400;
  return { issuer, clock, log, bus, open, claims: { sub: "ann", exp } };
}

/** The owner of a token, or the code of its refusal. */
const judge = (verifier: Verifier, token: string): Promise<string> =>
  verifier.verify(token).then(
    ({ ownerId }) => ownerId,
    (error) => error.code,
  );

const turns = async (count: number) => {
  for (let index = 0; index < count; index++) await turn();
};

/** A provider with two keys, and a token that was accepted with the first of them. */
async function stageTwoKeys() {
  const staged = await stage();
  const { issuer, open, claims } = staged;
  const [old, next] = [await issuer.makeKey(), await issuer.makeKey()];
  issuer.publish(old, next);
  const verifier = await open();
  const token = await issuer.sign(old, claims);
  expect(await judge(verifier, token)).toBe("ann");
  return { ...staged, verifier, token, withdraw: () => issuer.publish(next) };
}

test("published keys are fetched again every ten minutes, so a revoked key becomes invalid without a request for it", async () => {
  const { issuer, clock, verifier, token, withdraw } = await stageTwoKeys();
  withdraw();
  await clock.advance(10 * MINUTE_MS - 1);
  expect(await judge(verifier, token)).toBe("ann");
  expect(issuer.fetches).toBe(1);
  await clock.advance(1);
  await issuer.whenFetched(2);
  while ((await judge(verifier, token)) === "ann") await turn();
  expect(await judge(verifier, token)).toBe("unauthorized");
});

test("published keys stay valid while they cannot be fetched, and the fetch is retried each minute", async () => {
  const { issuer, clock, log, verifier, token } = await stageTwoKeys();
  issuer.isDown = true;
  for (let fetches = 2; fetches <= 4; fetches++) {
    await clock.advance(fetches === 2 ? 10 * MINUTE_MS : MINUTE_MS);
    await issuer.whenFetched(fetches);
    while (log.lines.length < fetches - 1) await turn();
    expect(await judge(verifier, token)).toBe("ann");
  }
  expect(JSON.stringify(log.lines)).not.toContain(token.split(".")[1]);
});

test("published keys are fetched for an unknown key five times at once, and then every ten seconds", async () => {
  const { issuer, clock, open, claims } = await stage();
  const stranger = await issuer.makeKey();
  const verifier = await open();
  const ask = async () => judge(verifier, await issuer.sign(stranger, claims));
  for (let index = 0; index < 9; index++) expect(await ask()).toBe("unauthorized");
  expect(issuer.fetches).toBe(1 + 5);
  await clock.advance(9_999);
  await ask();
  expect(issuer.fetches).toBe(6);
  await clock.advance(1);
  issuer.publish(stranger);
  expect(await ask()).toBe("ann");
  expect(issuer.fetches).toBe(7);
});

test("published keys are fetched for an unknown key as before after the clock was set back", async () => {
  const { issuer, clock, open, claims } = await stage();
  const stranger = await issuer.makeKey();
  const verifier = await open();
  const token = await issuer.sign(stranger, claims);
  for (let index = 0; index < 5; index++) expect(await judge(verifier, token)).toBe("unauthorized");
  clock.jump(-60 * MINUTE_MS);
  expect(await judge(verifier, token)).toBe("unauthorized");
  expect(issuer.fetches).toBe(6);
  issuer.publish(stranger);
  await clock.advance(10_000);
  expect(await judge(verifier, token)).toBe("ann");
});

test("published keys are fetched when another node finds some withdrawn, but not once for each of its messages", async () => {
  const { issuer, clock, bus, verifier, token, withdraw } = await stageTwoKeys();
  const tell = () => bus.publish("test.keys", new Uint8Array());
  withdraw();
  await tell();
  await clock.advance(0);
  await issuer.whenFetched(2);
  while ((await judge(verifier, token)) === "ann") await turn();
  // Its own notice of the withdrawal, which it hears too, finds nothing new.
  for (let index = 0; index < 50; index++) {
    await tell();
    await clock.advance(0);
    await turns(50);
  }
  expect(issuer.fetches).toBeLessThanOrEqual(1 + 5);
  const before = issuer.fetches;
  await clock.advance(10_000);
  await issuer.whenFetched(before + 1);
  await turns(50);
  expect(issuer.fetches).toBe(before + 1);
});

test("published keys are fetched anew when another node finds some withdrawn while an older fetch is under way", async () => {
  const { issuer, clock, bus, verifier, token, withdraw } = await stageTwoKeys();
  const slow = Promise.withResolvers<void>();
  issuer.delay = slow.promise;
  await clock.advance(10 * MINUTE_MS);
  await issuer.whenFetched(2);
  issuer.delay = undefined;
  withdraw();
  await bus.publish("test.keys", new Uint8Array());
  await clock.advance(0);
  slow.resolve();
  await issuer.whenFetched(3);
  while ((await judge(verifier, token)) === "ann") await turn();
});

test("published keys that were withdrawn are told to other nodes once, and a set that only grew is not", async () => {
  const { issuer, clock, bus, open } = await stage();
  const [first, second, third] = [await issuer.makeKey(), await issuer.makeKey(), await issuer.makeKey()];
  issuer.publish(first);
  let heard = 0;
  await bus.subscribe("test.keys", () => {
    heard += 1;
  });
  await open();
  while (clock.timerCount === 0) await turn();
  for (const [keys, notices] of [
    [[first, second], 0],
    [[second, third], 1],
    [[second, third], 1],
    [[third], 2],
  ] as const) {
    const before = issuer.fetches;
    issuer.publish(...keys);
    await clock.advance(10 * MINUTE_MS);
    await issuer.whenFetched(before + 1);
    await turns(50);
    expect(heard).toBe(notices);
  }
});

test("published keys of more than a mebibyte are not read", async () => {
  const { issuer, open, claims } = await stage();
  const key = await issuer.makeKey();
  issuer.published = [key.publicJwk, { kty: "EC", x: "x".repeat(1_048_576) }];
  const verifier = await open();
  expect(await judge(verifier, await issuer.sign(key, claims))).toBe("unavailable");
  issuer.publish(key);
  expect(await judge(verifier, await issuer.sign(key, claims))).toBe("ann");
});

test("invalid published keys make no token valid, and are reported as the server's fault, not the client's", async () => {
  const { issuer, open, claims } = await stage();
  const key = await issuer.makeKey();
  issuer.published = "nonsense" as never;
  const verifier = await open();
  expect(await judge(verifier, await issuer.sign(key, claims))).toBe("unavailable");
});

test("published keys are not fetched once the key set is closed", async () => {
  const { clock, open } = await stage();
  const verifier = await open();
  while (clock.timerCount === 0) await turn();
  verifier.close();
  expect(clock.timerCount).toBe(0);
});
