import { describe, expect, test } from "vitest";
import { readRetryAfter, toProviderFailure } from "../../../src/agents/provider-failure.ts";
import { AppError } from "../../../src/protocol/errors.ts";

describe("Retry-After", () => {
  const NOW = "Wed, 21 Oct 2026 07:28:00 GMT";

  test.each([
    ["seconds", { "retry-after": "7" }, 7_000],
    ["parts of a second, rounded up", { "retry-after": "0.0205" }, 21],
    ["a date, against the answer's own", { "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", date: NOW }, 30_000],
    ["a date that has passed", { "retry-after": "Wed, 21 Oct 2026 07:00:00 GMT", date: NOW }, 0],
    ["more than a day", { "retry-after": "999999999" }, 86_400_000],
    ["a date without another to read it against", { "retry-after": NOW }, undefined],
    ["nonsense", { "retry-after": "soon", date: NOW }, undefined],
    ["less than nothing", { "retry-after": "-5" }, undefined],
    ["nothing", {}, undefined],
  ])("Retry-After is read as %s", (_, headers, ms) => {
    expect(readRetryAfter(headers as Record<string, string>)).toBe(ms);
  });
});

describe("the failure behind an error of the SDK", () => {
  const codeOf = (error: unknown) => (toProviderFailure(error) as AppError).code;
  const apiError = (facts: object) => Object.assign(new Error("m"), { name: "AI_APICallError", ...facts });

  test.each([
    [408, "provider_unreachable"],
    [413, "provider_refused"],
    [429, "provider_rate_limited"],
    [529, "provider_unreachable"],
    // A body that was cut off, or that is not the provider's.
    [200, "provider_unreachable"],
  ])("an error with status %i has its error code", (statusCode, code) => {
    expect(codeOf(apiError({ statusCode }))).toBe(code);
  });

  test("the provider's error name decides if an error has no status", () => {
    expect(codeOf(apiError({ type: "rate_limit_error" }))).toBe("provider_rate_limited");
    expect(codeOf(apiError({ code: "context_length_exceeded" }))).toBe("provider_refused");
    expect(codeOf({ message: "an object of the provider's", type: "server_error" })).toBe("provider_unreachable");
    expect(codeOf("text part 1 not found")).toBe("provider_unreachable");
  });

  test("a request that a provider cannot process is a refusal", () => {
    expect(codeOf(Object.assign(new Error("m"), { name: "AI_UnsupportedFunctionalityError" }))).toBe(
      "provider_refused",
    );
  });

  test("a connection that fetch itself abandoned is unreachable", () => {
    expect(codeOf(new TypeError("terminated"))).toBe("provider_unreachable");
  });

  test("an AppError and an unknown error are passed on unchanged", () => {
    const fault = new TypeError("x is undefined");
    expect(toProviderFailure(fault)).toBe(fault);
    const stated = new AppError("provider_refused", "The model's provider filtered the reply.");
    expect(toProviderFailure(stated)).toBe(stated);
  });

  test("the cause contains the kind, the status and the provider's error name", () => {
    const failure = toProviderFailure(apiError({ statusCode: 404, data: { error: { code: "model_not_found" } } }));
    expect(failure).toMatchObject({
      message: "The model's provider refused the request (404 model_not_found).",
      cause: { message: "AI_APICallError 404 model_not_found" },
    });
  });
});
