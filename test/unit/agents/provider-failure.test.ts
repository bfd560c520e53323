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

  const UNREACHABLE = "provider_unreachable";
  test.each([
    ["status 408", apiError({ statusCode: 408 }), UNREACHABLE],
    ["status 413", apiError({ statusCode: 413 }), "provider_refused"],
    ["status 429", apiError({ statusCode: 429 }), "provider_rate_limited"],
    ["status 529", apiError({ statusCode: 529 }), UNREACHABLE],
    ["status 200: a body that was cut off, or that is not the provider's", apiError({ statusCode: 200 }), UNREACHABLE],
    ["no status, and the name of a limit", apiError({ type: "rate_limit_error" }), "provider_rate_limited"],
    ["no status, and a code", apiError({ code: "context_length_exceeded" }), "provider_refused"],
    ["no class", { message: "an object of the provider's", type: "server_error" }, UNREACHABLE],
    ["text alone", "text part 1 not found", UNREACHABLE],
    [
      "a name that says that the provider cannot process the request",
      Object.assign(new Error("m"), { name: "AI_UnsupportedFunctionalityError" }),
      "provider_refused",
    ],
    ["a connection that fetch itself abandoned", new TypeError("terminated"), UNREACHABLE],
  ])("an error with %s has its error code", (_, error, code) => {
    expect(codeOf(error)).toBe(code);
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
