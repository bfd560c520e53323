import Fastify from "fastify";
import { expect, test } from "vitest";
import { guardOrigins } from "../../../src/gateway/http/origin.ts";

test("a refused origin is logged once, with the setting that lists allowed origins", async () => {
  const warnings: [facts: object, message: string][] = [];
  const nothing = () => {};
  const log = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (...line: [object, string]) => void warnings.push(line),
  };
  const app = Fastify();
  guardOrigins(app, { host: "127.0.0.1", hosts: [], origins: ["https://app.example"] }, log);
  app.get("/", async () => "");
  const ask = (origin: string) => app.inject({ url: "/", headers: { host: "127.0.0.1", origin } });
  expect((await ask("https://app.example")).statusCode).toBe(200);
  for (const origin of ["null", "https://foreign.example", "null", `https://${"x".repeat(1_000)}.example`]) {
    expect((await ask(origin)).statusCode).not.toBe(200);
  }
  const origins = warnings.map(([facts]) => (facts as { origin: string }).origin);
  expect(origins).toEqual(["null", "https://foreign.example", `https://${"x".repeat(248)}`]);
  for (const [, message] of warnings) expect(message).toContain("INTERLOCK_ORIGINS");
  // The log stays short for any number of origins.
  for (let page = 0; page < 200; page += 1) await ask(`https://page${page}.example`);
  expect(warnings.length).toBeLessThanOrEqual(64);
});
