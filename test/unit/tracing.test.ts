import { expect, test } from "vitest";
import { readTraceSettings } from "../../src/config/traces.ts";
import { Tracing } from "../../src/node/tracing.ts";
import { Envelope } from "../../src/protocol/internal/command.ts";
import { json, SmallServer } from "../support/servers/small-server.ts";

/** A full batch of spans, which is sent without waiting for more. */
const SENT_TOGETHER = 1_024;

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318/" };
const USUAL = { kind: "always", ratio: 1, parent: true };

test.each<[what: string, env: Record<string, string>, read: unknown]>([
  ["nothing", {}, undefined],
  ["empty variables", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }, undefined],
  ["an endpoint", ENDPOINT, { url: "http://127.0.0.1:4318/v1/traces", sampler: USUAL }],
  [
    "an endpoint for traces alone",
    { ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://traces.example/in" },
    { url: "https://traces.example/in", sampler: USUAL },
  ],
  ["an endpoint that is not to be used", { ...ENDPOINT, OTEL_SDK_DISABLED: "TRUE" }, undefined],
  ["no exporter", { ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" }, undefined],
  [
    "a share",
    { ...ENDPOINT, OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" },
    { url: "http://127.0.0.1:4318/v1/traces", sampler: { kind: "ratio", ratio: 0.25, parent: true } },
  ],
  [
    "a protocol for traces before one for all",
    { ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    { url: "http://127.0.0.1:4318/v1/traces", sampler: USUAL },
  ],
])("OpenTelemetry's variables are read: %s", (_, env, read) => {
  expect(readTraceSettings(env)).toEqual(read);
});

test.each<[fault: string, env: Record<string, string>]>([
  ["OTEL_EXPORTER_OTLP_ENDPOINT", { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }],
  ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "nowhere" }],
  ["OTEL_EXPORTER_OTLP_PROTOCOL", { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }],
  ["OTEL_TRACES_EXPORTER", { ...ENDPOINT, OTEL_TRACES_EXPORTER: "zipkin" }],
  ["OTEL_TRACES_SAMPLER", { ...ENDPOINT, OTEL_TRACES_SAMPLER: "often" }],
  ["OTEL_TRACES_SAMPLER_ARG", { ...ENDPOINT, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "25%" }],
])("an unsupported feature is reported by its name: %s", (fault, env) => {
  expect(() => readTraceSettings(env)).toThrow(new RegExp(`^${fault} `));
});

test("a failing trace collector is logged once, and so is its recovery", async () => {
  const refuse = json({}, 400);
  await using server = await SmallServer.start(refuse, refuse, json({}));
  const warnings: string[] = [];
  const sentAgain = Promise.withResolvers<void>();
  const tell = (_: object, message: string) => void warnings.push(message);
  const info = (_: object, message: string) => {
    warnings.push(message);
    sentAgain.resolve();
  };
  const settings = readTraceSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: server.url })!;
  const tracing = new Tracing({ settings, about: {}, log: { debug: tell, info, warn: tell, error: tell } });
  // Sent one after the other: two are refused, and one is accepted.
  for (let count = 0; count < 3 * SENT_TOGETHER; count++) tracing.begin("send", "send", undefined, {}).end({});
  await sentAgain.promise;
  await tracing.close();
  expect(server.heard).toHaveLength(3);
  expect(warnings).toEqual(["traces cannot be sent; they are lost", "traces are sent again"]);
});

test("a malformed trace is ignored, and its command is accepted", () => {
  const envelope = { floorId: "u:ann", commandId: "c", bodyHash: "", timeoutAt: 1, command: { type: "floor.stop" } };
  const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  expect(Envelope.parse({ ...envelope, trace }).trace).toBe(trace);
  for (const wrong of [7, "", "x".repeat(100_000), trace.toUpperCase(), `${trace}-`, trace.replace(/[1-9a-f]/g, "0")]) {
    expect(Envelope.parse({ ...envelope, trace: wrong }).trace).toBeUndefined();
  }
});
