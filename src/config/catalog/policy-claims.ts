/** Claims about a catalogue, which `interlock prove` checks: its key `claims`. The server does not use them. */

import { z } from "zod";
import { AgentId } from "../../protocol/ids.ts";

const agents = z.union([AgentId.transform((one) => [one]), z.array(AgentId).min(1).max(1_000)]);

const AFTER = /^([a-z0-9_-]{1,64}) ends$/;
const EVENTUALLY = /^([a-z0-9_-]{1,64}) is heard$/;
const named = (form: RegExp, text: string) =>
  z
    .string()
    .regex(form, text)
    .transform((sentence) => form.exec(sentence)![1] as AgentId);

const Never = z.strictObject({
  rejected: agents.optional(),
  while_heard: agents.optional(),
  silenced: agents.optional(),
  by: agents.optional(),
});

export const PolicyClaim = z
  .strictObject({
    name: z.string().min(1).max(200),
    never: Never.optional(),
    always: z
      .strictObject({
        after: named(AFTER, "a sentence, as in phone_agent ends"),
        eventually: named(EVENTUALLY, "a sentence, as in music_agent is heard"),
      })
      .optional(),
  })
  .superRefine(({ never, always }, context) => {
    const blame = (message: string) => context.addIssue({ code: "custom", message });
    if ((never === undefined) === (always === undefined)) blame("must have never or always");
    if (!never) return;
    const { rejected, while_heard, silenced, by } = never;
    if ((rejected === undefined) === (silenced === undefined)) blame("never must have rejected or silenced");
    if (while_heard && !rejected) blame("while_heard belongs to rejected");
    if (by && !silenced) blame("by belongs to silenced");
  });
export type PolicyClaim = z.infer<typeof PolicyClaim>;

/**
 * The agents that a claim names, each with its path below the claim. For a file that may have other faults.
 */
export function namesInClaim(claim: unknown): NamedAgent[] {
  const { never, always } = (claim ?? {}) as { never?: Record<string, unknown>; always?: Record<string, unknown> };
  const forms = { after: AFTER, eventually: EVENTUALLY };
  return [
    ...Object.entries(never ?? {}).flatMap(([key, value]) => namesIn(value, ["never", key])),
    ...Object.entries(forms).flatMap(([key, form]) => {
      const name = form.exec(String(always?.[key]))?.[1];
      return name === undefined ? [] : [{ name, path: ["always", key] }];
    }),
  ];
}

interface NamedAgent {
  name: string;
  path: (string | number)[];
}

function namesIn(value: unknown, path: (string | number)[]): NamedAgent[] {
  if (typeof value === "string") return [{ name: value, path }];
  return Array.isArray(value)
    ? value.flatMap((each, at) => (typeof each === "string" ? [{ name: each, path: [...path, at] }] : []))
    : [];
}
