import { z } from "zod";

/** Whether a client that fills every field means nothing by this value. */
export const isAbsent = (value: unknown): value is undefined | null | "" =>
  value === undefined || value === null || value === "";

/** Why a value fits none of several schemas: why it does not fit the first, which is the one that clients mean. */
const reasonOf = (issue: { code?: string; errors?: unknown }): string | undefined =>
  (issue.errors as z.core.$ZodIssue[][] | undefined)?.[0]?.[0]?.message;

/** An optional field that clients also send as null or "" where they mean nothing. */
export const mayBeEmpty = <S extends z.ZodType>(schema: S) =>
  z
    .union([schema, z.literal(""), z.null()], { error: reasonOf })
    .optional()
    .transform((value) => (isAbsent(value) ? undefined : value));
