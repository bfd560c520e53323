import type { Answer } from "../nodes/node-under-test.ts";
import type { Caller } from "./callers.ts";

/** An image that the server accepts. */
export const IMAGE = { data: Buffer.from("not really a picture").toString("base64"), mimeType: "image/png" };

/** Ann's resources, which Bob tries to reach. */
export interface Things {
  /** A session on her floor. */
  session: string;
  /** A session on its own floor. */
  alone: string;
  message: string;
  /** A run of the session on its own floor that has not ended. */
  run: string;
  image: string;
  floor: string;
  connection: string;
  /** The id of her connection. */
  position: string;
}

/** The same for resources that do not exist. */
export const NOTHING: Things = {
  session: "no-such-session",
  alone: "no-such-session",
  message: "no-such-message",
  run: "no-such-run",
  image: "0".repeat(64),
  floor: "u:nobody",
  connection: "nowhere",
  position: "",
};

/** The path of a floor. */
export const floor = (id: string) => `/floor/${encodeURIComponent(id)}`;

/** Every route that names a resource of an owner, and how it is called. */
export const ROUTES: [route: string, ask: (caller: Caller, of: Things) => Promise<Answer>][] = [
  ["POST /session/load", (caller, { session }) => caller.post("/session/load", { sessionId: session })],
  ["GET /session/{id}", (caller, { session }) => caller.get(`/session/${session}`)],
  ["PATCH /session/{id}", (caller, { session }) => caller.ask("PATCH", `/session/${session}`, { title: "mine" })],
  ["DELETE /session/{id}", (caller, { session }) => caller.ask("DELETE", `/session/${session}`)],
  ["POST /session/{id}/fork", (caller, { session }) => caller.post(`/session/${session}/fork`)],
  ["POST /session/{id}/move", (caller, { session }) => caller.post(`/session/${session}/move`, { zone: "rear" })],
  ["POST /session/{id}/rollback", (caller, { session }) => caller.post(`/session/${session}/rollback`)],
  [
    "GET /session/rollback-points",
    (caller, { session }) => caller.get(`/session/rollback-points?sessionId=${session}`),
  ],
  ["POST /context/compress", (caller, { session }) => caller.post("/context/compress", { sessionId: session })],
  ["POST /session/{id}/summarize", (caller, { session }) => caller.post(`/session/${session}/summarize`)],
  ["POST /session/{id}/mode", (caller, { session }) => caller.post(`/session/${session}/mode`, { mode: "quick" })],
  ["POST /session/{id}/schedule", (caller, { session }) => caller.post(`/session/${session}/schedule`, { in: "1h" })],
  ["GET /session/{id}/export", (caller, { session }) => caller.get(`/session/${session}/export`)],
  ["GET /session/{id}/queue", (caller, { session }) => caller.get(`/session/${session}/queue`)],
  [
    "POST /session/{id}/messages/{messageId}/resend",
    (caller, { session, message }) => caller.post(`/session/${session}/messages/${message}/resend`),
  ],
  [
    "POST /session/{id}/messages/{messageId}/edit",
    (caller, { session, message }) => caller.post(`/session/${session}/messages/${message}/edit`, { content: "mine" }),
  ],
  [
    "POST /session/import",
    (caller, { connection }) =>
      caller.post(`/session/import?connectionId=${connection}`, undefined, {
        raw: '{"type":"session","version":1}\n{"type":"end","messages":0}',
        headers: { "Content-Type": "application/x-ndjson" },
      }),
  ],
  ["GET /session/{id}/messages", (caller, { session }) => caller.get(`/session/${session}/messages`)],
  [
    "DELETE /session/{id}/messages/{messageId}",
    (caller, { session, message }) => caller.ask("DELETE", `/session/${session}/messages/${message}`),
  ],
  [
    "GET /session/{id}/messages/{messageId}/logs",
    (caller, { session, message }) => caller.get(`/session/${session}/messages/${message}/logs`),
  ],
  [
    "GET /session/{id}/images/{hash}",
    (caller, { session, image }) => caller.get(`/session/${session}/images/${image}`),
  ],
  ...["activate", "pause", "resume", "archive", "stop"].map((verb): (typeof ROUTES)[number] => [
    `POST /session/{id}/${verb}`,
    (caller, { session }) => caller.post(`/session/${session}/${verb}`),
  ]),
  ["GET /session/{id}/events", (caller, { session }) => caller.get(`/session/${session}/events`)],
  ["GET /floor/{id}", (caller, of) => caller.get(floor(of.floor))],
  ["GET /floor/{id}/log", (caller, of) => caller.get(`${floor(of.floor)}/log`)],
  ["POST /floor/{id}/stop", (caller, of) => caller.post(`${floor(of.floor)}/stop`)],
  ["POST /floor/{id}/stop-all", (caller, of) => caller.post(`${floor(of.floor)}/stop-all`)],
  ["PUT /floor/{id}/flags", (caller, of) => caller.ask("PUT", `${floor(of.floor)}/flags`, { emergency: true })],
  ["PATCH /floor/{id}/flags", (caller, of) => caller.ask("PATCH", `${floor(of.floor)}/flags`, { emergency: true })],
  ["POST /floor/{id}/what-if", (caller, of) => caller.post(`${floor(of.floor)}/what-if`, { agentId: "phone" })],
  [
    "POST /floor/{id}/replay",
    (caller, of) =>
      caller.post(`${floor(of.floor)}/replay`, undefined, {
        raw: "agents: [{ name: phone }]",
        headers: { "Content-Type": "application/yaml" },
      }),
  ],
  ["GET /floor/{id}/events", (caller, of) => caller.get(`${floor(of.floor)}/events`)],
  ["POST /runs/{id}/cancel", (caller, { run }) => caller.post(`/runs/${run}/cancel`)],
  ["POST /message", (caller, { session }) => caller.post("/message", { type: "abort", sessionId: session })],
  ["POST /session/create", (caller, { connection }) => caller.post("/session/create", { connectionId: connection })],
  ["GET /api/chat/{id}/stream", (caller, { session }) => caller.get(`/api/chat/${session}/stream`)],
  ["DELETE /api/chat/{id}/stream", (caller, { session }) => caller.ask("DELETE", `/api/chat/${session}/stream`)],
];

/** Answers besides 404 that mean that nothing is there. */
export const NOTHING_THERE = /^$|"deleted":false|"aborted":false/;

/** Routes that only operators may use, whatever they name. */
export const OF_OPERATORS = [
  "GET /agents/definitions",
  "POST /agents/definitions",
  "GET /agents/definitions/{id}",
  "PATCH /agents/definitions/{id}",
  "DELETE /agents/definitions/{id}",
  "GET /catalogue/matrix",
  "POST /catalogue/diff",
  "GET /metrics",
  "GET /nodes",
  "GET /webhooks",
  "POST /webhooks/{name}/test",
  "POST /webhooks/{name}/enable",
  "DELETE /user/{id}",
];

/**
 * Routes that name no resource of an owner. Lists among them are tested in
 * `test/e2e/contract/auth/auth-ownership.test.ts`, and the doors in `test/e2e/doors/access.test.ts`. A new route
 * belongs in one of the three lists.
 */
export const OF_NOBODY = [
  "GET /session/list",
  "GET /floors",
  "GET /floors/events",
  "GET /runs",
  "GET /agents",
  "GET /events",
  "GET /health",
  "GET /ready",
  "GET /usage",
  "GET /user/{id}/export",
  "POST /ticket",
  "POST /cookie",
  "DELETE /cookie",
  "POST /api/chat",
  "GET /v1/models",
  "GET /v1/models/{model}",
  "POST /v1/chat/completions",
  "POST /v1/responses",
  "POST /mcp",
];

/** The messages that a client may send to a session. */
export const MESSAGES: [type: string, fields: object][] = [
  ["chat", { content: "hello" }],
  ["image", { content: "hello", images: [IMAGE] }],
  ["abort", {}],
  ["pause", {}],
  ["resume", {}],
  ["archive", {}],
  ["switch_agent", { agentId: "phone" }],
  ["tool_confirmation_response", { requestId: "r", response: "approve" }],
  ["user_question_response", { requestId: "r", response: "a" }],
];

/** An answer without the parts that differ between requests. */
export function essence({ status, text }: Answer, of: Things): { status: number; text: string } {
  let plain = text.replace(/"traceId":"[^"]+"/, "");
  for (const [name, id] of Object.entries(of)) if (id !== "") plain = plain.replaceAll(id, `<${name}>`);
  return { status, text: plain };
}
