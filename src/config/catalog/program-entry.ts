import { z } from "zod";
import { duration } from "../quantities.ts";

const VARIABLE = "[A-Za-z_][A-Za-z0-9_]{0,127}";
/** Set for every program by its worker. */
const MARKER = "INTERLOCK_RUN";

export const path = z.string().min(1).max(4_096);

/** What all kinds of program have. Text of users reaches `args` alone, as whole arguments; nothing passes a shell. */
export const program = {
  args: z.array(z.string().max(16_384)).max(256).default([]),
  /** A folder; left out: the worker's own. */
  cwd: path.optional(),
  /** Names of variables that the program gets; `NAME=OTHER` gives it the worker's `OTHER` under `NAME`. */
  env: z
    .array(
      z
        .string()
        .regex(new RegExp(`^${VARIABLE}(=${VARIABLE})?$`), "NAME, or NAME=OTHER for the worker's OTHER under NAME")
        .refine((entry) => entry.split("=")[0] !== MARKER, "is set by the worker"),
    )
    .max(64)
    .default([]),
  /** Variables with values that are not secret. */
  set: z
    .record(
      z
        .string()
        .regex(new RegExp(`^${VARIABLE}$`), "the name of an environment variable")
        .refine((name) => name !== MARKER, "is set by the worker"),
      z.string().max(4_096),
    )
    .default({}),
  start_timeout: duration({ min: "1s", max: "1h" }).default(60_000),
  silence_timeout: duration({ min: "1s", max: "1d" }).default(600_000),
};
