import { z } from "zod";

/** Whether a client that fills every field means nothing by this value. */
export const isAbsent = (value: unknown): value is undefined | null | "" =>
  value === undefined || value === null || value === "";

/** An optional field that clients also send as null or "" where they mean nothing. */
export const mayBeEmpty = <S extends z.ZodType>(schema: S) =>
  z
    .union([schema, z.literal(""), z.null()])
    .optional()
    .transform((value) => (isAbsent(value) ? undefined : value));
