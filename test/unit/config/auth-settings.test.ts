import { expect, it } from "vitest";
import { parseRateLimits, USUAL_RATE_LIMITS, USUAL_RATE_LIMITS_TEXT } from "../../../src/config/rate-limits.ts";
import { settingFaultsOf as faultsOf, settingsOf } from "../../support/catalogs/settings.ts";

const JWT = { INTERLOCK_AUTH: "jwt:https://id.example/keys" };
const KEYS = { INTERLOCK_AUTH: "keys:/etc/interlock/keys.yaml" };

it.each([
  ["jwt:https://id.example/keys", { kind: "jwks", url: "https://id.example/keys" }],
  ["jwt:http://127.0.0.1:80/a?b=c", { kind: "jwks", url: "http://127.0.0.1/a?b=c" }],
  ["jwt:/run/secrets/jwt", { kind: "secret", file: "/run/secrets/jwt" }],
  ["jwt:secret.txt", { kind: "secret", file: "secret.txt" }],
  ["keys:keys.yaml", { kind: "keys", file: "keys.yaml" }],
  ["keys:https://x", { kind: "keys", file: "https://x" }],
  ["none", "none"],
])("INTERLOCK_AUTH may be %s", (text, auth) => {
  expect(settingsOf({ INTERLOCK_AUTH: text }).auth).toEqual(auth);
});

it.each(["jwt", "jwt:", "keys:", "NONE", "jwt: file", "basic:x", "jwt:https:keys\n"])(
  "INTERLOCK_AUTH may not be %j",
  (text) => {
    expect(faultsOf({ INTERLOCK_AUTH: text })).toEqual([
      'INTERLOCK_AUTH: must be "none", jwt:<URL of a key set>, jwt:<file with a secret> or keys:<file>',
    ]);
  },
);

it("INTERLOCK_AUTH may fetch keys only by HTTP, and without a password", () => {
  for (const text of ["jwt:ftp://id.example/keys", "jwt:file:///etc/keys", "jwt:https://"]) {
    expect(faultsOf({ INTERLOCK_AUTH: text })).toEqual(["INTERLOCK_AUTH: must name a key set by http or https"]);
  }
  expect(faultsOf({ INTERLOCK_AUTH: "jwt:https://me:hush@id.example/keys" })).toEqual([
    "INTERLOCK_AUTH: must name a public key set, by a URL without a password",
  ]);
});

it("INTERLOCK_AUTH allows a node to listen on a public address, unless it is off", () => {
  for (const auth of [JWT, KEYS]) expect(settingsOf({ ...auth, HOST: "0.0.0.0" }).host).toBe("0.0.0.0");
  expect(faultsOf({ HOST: "0.0.0.0" })).toHaveLength(1);
});

it("INTERLOCK_RATE_LIMITS is off without authentication, and has its defaults with it", () => {
  expect(settingsOf({}).rateLimits).toEqual({});
  expect(settingsOf(KEYS).rateLimits).toEqual(USUAL_RATE_LIMITS);
  expect(parseRateLimits(USUAL_RATE_LIMITS_TEXT)).toEqual({ value: USUAL_RATE_LIMITS });
});

it("INTERLOCK_RATE_LIMITS may set single limits; the others keep their defaults", () => {
  const { rateLimits } = settingsOf({ ...KEYS, INTERLOCK_RATE_LIMITS: "refused=5/10s, address=off" });
  const { owner } = USUAL_RATE_LIMITS;
  expect(rateLimits).toEqual({ owner, refused: { max: 5, windowMs: 10_000 } });
  expect(settingsOf({ ...KEYS, INTERLOCK_RATE_LIMITS: "off" }).rateLimits).toEqual({});
});

it.each([
  ["owner=5", "must be off, or limits such as"],
  ["owner=5/1w", "must be off, or limits such as"],
  ["user=5/1m", "must be off, or limits such as"],
  ["owner=5/1m,", "must be off, or limits such as"],
  ["owner=0/1m", "must allow at least 1 in a window of 1s to 1d; owner does not"],
  ["owner=5/10ms", "must allow at least 1 in a window of 1s to 1d; owner does not"],
  ["owner=5/2d", "must allow at least 1 in a window of 1s to 1d; owner does not"],
  ["owner=5/1m,owner=6/1m", "names owner twice"],
])("INTERLOCK_RATE_LIMITS may not be %s", (text, message) => {
  expect(faultsOf({ ...KEYS, INTERLOCK_RATE_LIMITS: text })[0]).toContain(`INTERLOCK_RATE_LIMITS: ${message}`);
});

it.each(["10.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "127.0.0.1, fd00::/128"])(
  "INTERLOCK_PROXIES may be %s",
  (text) => {
    expect(settingsOf({ INTERLOCK_PROXIES: text }).proxies).toEqual(text.split(", "));
  },
);

it.each(["proxy", "10.0.0.0/33", "fd00::/129", "10.0.0.0/8/8", "10.0.0.0/", "loopback"])(
  "INTERLOCK_PROXIES may not be %s",
  (text) => {
    expect(faultsOf({ INTERLOCK_PROXIES: text })).toEqual([
      "INTERLOCK_PROXIES: must be addresses or networks, as in 10.0.0.0/8, separated by commas; entry 1 is not",
    ]);
  },
);

it.each([
  [{ INTERLOCK_ISSUER: "me" }, "INTERLOCK_ISSUER: has no effect without INTERLOCK_AUTH=jwt:…"],
  [{ ...KEYS, INTERLOCK_AUDIENCE: "me" }, "INTERLOCK_AUDIENCE: has no effect without INTERLOCK_AUTH=jwt:…"],
  [{ INTERLOCK_RATE_LIMITS: "off" }, "INTERLOCK_RATE_LIMITS: has no effect without INTERLOCK_AUTH=jwt:… or keys:…"],
])("a setting that would have no effect is a fault: %o", (env, fault) => {
  expect(faultsOf(env as unknown as Record<string, string>)).toEqual([fault]);
  expect(faultsOf({ ...JWT, ...env, INTERLOCK_AUTH: JWT.INTERLOCK_AUTH })).toEqual([]);
});
