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

/**
 * Every route that names a resource of an owner, with a query, and its body: an object, or a text of another type. In
 * query and body `{session}` stands for the id of that resource.
 */
const REQUESTS: [request: string, body?: object | string, type?: string][] = [
  ["POST /session/load", { sessionId: "{session}" }],
  ["GET /session/{id}"],
  ["PATCH /session/{id}", { title: "mine" }],
  ["DELETE /session/{id}"],
  ["POST /session/{id}/fork"],
  ["POST /session/{id}/move", { zone: "rear" }],
  ["POST /session/{id}/rollback"],
  ["GET /session/rollback-points?sessionId={session}"],
  ["POST /context/compress", { sessionId: "{session}" }],
  ["POST /session/{id}/summarize"],
  ["POST /session/{id}/mode", { mode: "quick" }],
  ["POST /session/{id}/schedule", { in: "1h" }],
  ["GET /session/{id}/export"],
  ["GET /session/{id}/queue"],
  ["POST /session/{id}/messages/{messageId}/resend"],
  ["POST /session/{id}/messages/{messageId}/edit", { content: "mine" }],
  [
    "POST /session/import?connectionId={connection}",
    '{"type":"session","version":1}\n{"type":"end","messages":0}',
    "application/x-ndjson",
  ],
  ["GET /session/{id}/messages"],
  ["DELETE /session/{id}/messages/{messageId}"],
  ["GET /session/{id}/messages/{messageId}/logs"],
  ["GET /session/{id}/images/{hash}"],
  ["POST /session/{id}/activate"],
  ["POST /session/{id}/pause"],
  ["POST /session/{id}/resume"],
  ["POST /session/{id}/archive"],
  ["POST /session/{id}/stop"],
  ["GET /session/{id}/events"],
  ["GET /floor/{id}"],
  ["GET /floor/{id}/log"],
  ["POST /floor/{id}/stop"],
  ["POST /floor/{id}/stop-all"],
  ["PUT /floor/{id}/flags", { emergency: true }],
  ["PATCH /floor/{id}/flags", { emergency: true }],
  ["POST /floor/{id}/what-if", { agentId: "phone" }],
  ["POST /floor/{id}/replay", "agents: [{ name: phone }]", "application/yaml"],
  ["GET /floor/{id}/events"],
  ["POST /runs/{id}/cancel"],
  ["POST /message", { type: "abort", sessionId: "{session}" }],
  ["POST /session/create", { connectionId: "{connection}" }],
  ["GET /api/chat/{id}/stream"],
  ["DELETE /api/chat/{id}/stream"],
];

/** The same routes, and how they are called. */
export const ROUTES = REQUESTS.map(([request, body, type]) => {
  const [method, path] = request.split(" ") as [string, string];
  const ask = (caller: Caller, of: Things): Promise<Answer> => {
    const id = path.startsWith("/floor/") ? of.floor : path.startsWith("/runs/") ? of.run : of.session;
    const ids: Record<string, string> = { ...of, id, messageId: of.message, hash: of.image };
    const fill = (text: string) => text.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(ids[name]!));
    if (type !== undefined) {
      return caller.post(fill(path), undefined, { raw: String(body), headers: { "Content-Type": type } });
    }
    return caller.ask(method, fill(path), body && JSON.parse(fill(JSON.stringify(body))));
  };
  return [request.split("?")[0]!, ask] as const;
});

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
