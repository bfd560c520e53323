import Fastify from "fastify";
import { expect, test } from "vitest";
import { guardOrigins } from "../../../src/gateway/http/origin.ts";

function guardedApp() {
  const warnings: [facts: object, message: string][] = [];
  const nothing = () => {};
  const log = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (...line: [object, string]) => void warnings.push(line),
  };
  const app = Fastify();
  guardOrigins(app, { host: "127.0.0.1", hosts: ["floors.example"], origins: ["https://app.example"] }, log);
  app.get("/", async () => "");
  return { app, warnings };
}

test("a refused origin is logged once, with the setting that lists allowed origins", async () => {
  const { app, warnings } = guardedApp();
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

test("a refused host name is logged once, with the setting that lists the node's names", async () => {
  const { app, warnings } = guardedApp();
  const ask = async (host: string) => (await app.inject({ url: "/", headers: { host } })).statusCode;
  expect(await ask("floors.example:8080")).toBe(200);
  for (const host of ["10.1.2.3:3000", "other.example", "10.1.2.3:3000"]) expect(await ask(host)).not.toBe(200);
  expect(warnings.map(([facts]) => facts)).toEqual([{ host: "10.1.2.3:3000" }, { host: "other.example" }]);
  for (const [, message] of warnings) expect(message).toContain("INTERLOCK_HOSTS");
  // The log stays short for any number of names.
  for (let name = 0; name < 200; name += 1) await ask(`name${name}.example`);
  expect(warnings.length).toBeLessThanOrEqual(64);
});
