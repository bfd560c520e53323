/**
 * Every error that a client can receive. `status` is the HTTP status; errors with `event` reach clients on the stream
 * only. `retry`: `yes` = repeat with the same key, `later` = send again with a new key, `no` = it would fail again.
 */
export const ERRORS = {
  bad_request: { status: 400, retry: "no", text: "The request is malformed." },
  unauthorized: { status: 401, retry: "no", text: "Authentication is required." },
  forbidden: { status: 403, retry: "no", text: "This is not allowed." },
  session_not_found: { status: 404, retry: "no", text: "There is no such session." },
  not_found: { status: 404, retry: "no", text: "Nothing exists at this address." },
  method_not_allowed: { status: 405, retry: "no", text: "This address does not accept this method." },
  not_acceptable: { status: 406, retry: "no", text: "This address answers with text/event-stream only." },
  rejected: { status: 409, retry: "later", text: "Another session has the floor." },
  session_archived: { status: 409, retry: "no", text: "The session is archived." },
  agent_busy: { status: 409, retry: "later", text: "The agent is busy with another turn." },
  budget_exhausted: { status: 429, retry: "later", text: "The budget for further turns is used up." },
  illegal_command: { status: 409, retry: "no", text: "The session's state does not allow this." },
  idempotency_mismatch: {
    status: 409,
    retry: "no",
    text: "Another request has used this key or id. Choose another one.",
  },
  stale: { status: 409, retry: "no", text: "The session has changed since." },
  invalid_agent_id: { status: 400, retry: "no", text: "agentId cannot be empty" },
  invalid_agent_id_format: {
    status: 400,
    retry: "no",
    text: "agentId contains invalid characters. Allowed: [a-z0-9_-]",
  },
  agent_not_found: { status: 404, retry: "no", text: "There is no such agent." },
  interaction_not_found: { status: 404, retry: "no", text: "No question waits for this answer." },
  interaction_timeout: { status: 408, retry: "no", text: "The question was not answered in time." },
  connection_not_found: { status: 404, retry: "no", text: "There is no such connection." },
  too_large: { status: 413, retry: "no", text: "The request is too large." },
  too_many_requests: { status: 429, retry: "yes", text: "Too many requests." },
  too_many_bindings: { status: 409, retry: "no", text: "The connection is bound to too many sessions." },
  too_many_schedules: {
    status: 409,
    retry: "later",
    text: "Too many sessions of this floor wait for their time.",
  },
  busy: {
    status: 503,
    retry: "yes",
    text: "The server is overloaded. Repeat the request with the same key.",
  },
  unavailable: {
    status: 503,
    retry: "yes",
    text: "The outcome is not known yet. Repeat the request with the same key.",
  },
  provider_rate_limited: { status: "event", retry: "yes", text: "The model's provider asks to wait." },
  provider_unreachable: { status: "event", retry: "yes", text: "The model's provider cannot be reached." },
  provider_refused: { status: "event", retry: "no", text: "The model's provider refused the request." },
  run_lost: { status: "event", retry: "yes", text: "The run was lost with its worker." },
  internal: { status: 500, retry: "no", text: "Something failed on the server." },
} as const satisfies Record<string, { status: number | "event"; retry: "yes" | "later" | "no"; text: string }>;

export type ErrorCode = keyof typeof ERRORS;

export const ERROR_CODES = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]];

/** An error whose text and facts may leave the server. Clients see any other error as `internal`. */
export class AppError extends Error {
  readonly code: ErrorCode;
  /** Further fields of the response: `decision`, `issues`, `allowed`, `availableAgents`, `commandId` … */
  readonly facts: Record<string, unknown>;

  constructor(code: ErrorCode, message?: string, options: { facts?: Record<string, unknown>; cause?: unknown } = {}) {
    super(message ?? ERRORS[code].text, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "AppError";
    this.code = code;
    this.facts = options.facts ?? {};
  }

  get status(): number {
    const { status } = ERRORS[this.code];
    return status === "event" ? 502 : status;
  }

  /** `facts.retryAfterMs`: the shortest time until a repetition may succeed, in ms. */
  get retryAfterMs(): number | undefined {
    const { retryAfterMs } = this.facts;
    return typeof retryAfterMs === "number" ? retryAfterMs : undefined;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retry !== "no";
  }
}
