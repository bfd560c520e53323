import { parseDuration } from "./quantities.ts";

/** At most `max` requests in each window of `windowMs`. */
export interface RateLimit {
  max: number;
  windowMs: number;
}

/** An absent limit means unlimited. */
export interface RateLimits {
  /** Requests of one owner; opening an event stream counts as one. */
  owner?: RateLimit;
  /** Requests from one network address; for IPv6 from one /64, the size of a household's network. */
  address?: RateLimit;
  /** Requests from one address that failed authentication. */
  refused?: RateLimit;
}

/**
 * The default limits with authentication. An owner's client sends what a person does, plus retries; an address may be
 * shared by a whole company; one refusal per second indicates guessing.
 */
export const USUAL_RATE_LIMITS: RateLimits = {
  owner: { max: 600, windowMs: 60_000 },
  address: { max: 6_000, windowMs: 60_000 },
  refused: { max: 60, windowMs: 60_000 },
};

/** The default limits in the notation of the setting. */
export const USUAL_RATE_LIMITS_TEXT = "owner=600/1m,address=6000/1m,refused=60/1m";

const LIMIT = /^(owner|address|refused)=(?:off|(\d{1,7})\/(\w+))$/;
const FORM = `must be off, or limits such as ${USUAL_RATE_LIMITS_TEXT}`;
const MIN_WINDOW_MS = 1_000;
const MAX_WINDOW_MS = 86_400_000;

/** Parse the setting. Limits that it does not name keep their defaults. Returns the fault as a string. */
export function parseRateLimits(text: string): { value: RateLimits } | string {
  if (text === "off") return { value: {} };
  const limits = { ...USUAL_RATE_LIMITS };
  const seen = new Set<string>();
  for (const entry of text.split(",")) {
    const [, name, max, window = ""] = LIMIT.exec(entry.trim()) ?? [];
    if (name === undefined) return FORM;
    if (seen.has(name)) return `names ${name} twice`;
    seen.add(name);
    if (max === undefined) {
      delete limits[name as keyof RateLimits];
      continue;
    }
    const windowMs = parseDuration(window);
    if (windowMs === undefined) return FORM;
    if (Number(max) < 1 || windowMs < MIN_WINDOW_MS || windowMs > MAX_WINDOW_MS) {
      return `must allow at least 1 in a window of 1s to 1d; ${name} does not`;
    }
    limits[name as keyof RateLimits] = { max: Number(max), windowMs };
  }
  return { value: limits };
}
