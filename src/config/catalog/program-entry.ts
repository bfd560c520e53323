import { z } from "zod";
import { duration } from "../quantities.ts";

const VARIABLE = "[A-Za-z_][A-Za-z0-9_]{0,127}";
/** The worker sets these for every program. */
const MARKER = "INTERLOCK_RUN";

export const variableName = z.string().regex(new RegExp(`^${VARIABLE}$`), "the name of an environment variable");

/** A user or a group, by its number. Root would read everything. */
const systemId = z.int().min(1).max(4_294_967_294);

/** The path of a file or folder. */
export const path = z.string().min(1).max(4_096);

/**
 * The keys of every program. Text of users can appear only in `args`, as whole arguments, and no shell interprets it.
 */
export const program = {
  args: z.array(z.string().max(16_384)).max(256).default([]),
  /** The working folder. Default: the worker's own. */
  cwd: path.optional(),
  /** Names of environment variables that the program receives; `NAME=OTHER` passes the worker's `OTHER` as `NAME`. */
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
      variableName.refine((name) => name !== MARKER, "is set by the worker"),
      z.string().max(4_096),
    )
    .default({}),
  /**
   * The user and the group as which it runs, in place of the worker's. Needs Linux or macOS, and a worker that runs as
   * root.
   */
  run_as: z.strictObject({ uid: systemId, gid: systemId }).optional(),
  start_timeout: duration({ min: "1s", max: "1h" }).default(60_000),
  silence_timeout: duration({ min: "1s", max: "1d" }).default(600_000),
};
