/** Values of messages: where one is in a message, and whether it is the one that the file names. */

import { parseJson } from "../../shared/json.ts";

export type Scalar = string | number | boolean;

/** Where a value is in a message: at a path of its JSON, as in `a.b.0`; without one it is the message itself. */
export interface ValuePlace {
  path?: string | undefined;
}

/** Which value is meant. One of the three is given. */
export interface ValueCondition extends ValuePlace {
  is?: Scalar | readonly Scalar[] | undefined;
  above?: number | undefined;
  below?: number | undefined;
}

/** Why a message has no value: `no_json`, `no_value` at its path, `wrong_type`, or `too_long`. */
export type Misfit = "no_json" | "no_value" | "wrong_type" | "too_long";

/** The largest message that is read, in bytes. */
export const MAX_MESSAGE_BYTES = 65_536;

export type ValueReading = { ok: true; value: Scalar } | { ok: false; misfit: Misfit };

/** Read the value of a message. A message without a path that is no JSON is a text. */
export function readValue(payload: Buffer, { path }: ValuePlace): ValueReading {
  if (payload.length > MAX_MESSAGE_BYTES) return { ok: false, misfit: "too_long" };
  const text = payload.toString("utf8");
  const json = parseJson(text);
  if (path === undefined) {
    if (json === undefined || typeof json === "object") return { ok: true, value: text };
    return { ok: true, value: json as Scalar };
  }
  if (json === undefined) return { ok: false, misfit: "no_json" };
  const value = valueAt(json, path.split("."));
  if (value === undefined || value === null) return { ok: false, misfit: "no_value" };
  return typeof value === "object" ? { ok: false, misfit: "wrong_type" } : { ok: true, value: value as Scalar };
}

/** Whether a message has the value. A value of another type than the one that is named is a misfit. */
export function meets(payload: Buffer, condition: ValueCondition): boolean | Misfit {
  const reading = readValue(payload, condition);
  if (!reading.ok) return reading.misfit;
  const { value } = reading;
  const { is, above, below } = condition;
  if (is === undefined) {
    if (typeof value !== "number") return "wrong_type";
    return above !== undefined ? value > above : value < below!;
  }
  const wanted = Array.isArray(is) ? (is as readonly Scalar[]) : [is as Scalar];
  // A text that reads like a number, as in a message `-1` for `is: "-1"`.
  const isOne = (each: Scalar) => each === value || (condition.path === undefined && each === payload.toString("utf8"));
  if (wanted.some(isOne)) return true;
  const isTyped = wanted.some((each) => typeof each === typeof value || (typeof each === "string" && !condition.path));
  return isTyped ? false : "wrong_type";
}

function valueAt(json: unknown, steps: readonly string[]): unknown {
  let value = json;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}
