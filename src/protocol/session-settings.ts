import { z } from "zod";
import { cleanText } from "../shared/text.ts";
import { SHORT_NAME, SHORT_NAME_FORM } from "./ids.ts";

export const ModeName = z.string().regex(SHORT_NAME, SHORT_NAME_FORM);

/**
 * What clients may set of a session, when they create it and while it lives. From this table follow the fields of the
 * session, the bodies of `POST /session/create` and `PATCH /session/{id}`, the command `session.update`, the event
 * `session_updated`, and what the clients take.
 */
export const SessionSettings = z.object({
  title: z.string().trim().min(1).max(256).overwrite(cleanText).optional(),
  mode: ModeName.optional().meta({ description: "a mode of the agent; default: its first" }),
});
export type SessionSettings = z.infer<typeof SessionSettings>;

const NAMES = Object.keys(SessionSettings.shape) as (keyof SessionSettings)[];

/** The settings among these fields that have a value, and one other than before. */
export const changedSettings = (fields: SessionSettings, before: SessionSettings = {}): SessionSettings =>
  Object.fromEntries(
    NAMES.filter((name) => fields[name] !== undefined && fields[name] !== before[name]).map((name) => [
      name,
      fields[name],
    ]),
  );
