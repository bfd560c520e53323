import { z } from "zod";
import { AgentId } from "../protocol/ids.ts";

const Pattern = z.string().min(1).max(256);

/** What an entry recognises. Each key is a pattern in which `*` stands for any text; all keys of an entry must fit. */
const Match = z
  .strictObject({
    /** The name on the session bus behind `org.mpris.MediaPlayer2.`, as in `vlc` or `mpv*`. */
    mpris: Pattern.optional(),
    /** The name that the player shows to people, as in `Podcasts`. */
    identity: Pattern.optional(),
    /** The role of a stream of the sound server, as in `phone`, for programs that are no MPRIS players. */
    role: Pattern.optional(),
    /** The application's name of a stream of the sound server. */
    application: Pattern.optional(),
  })
  .refine((match) => Object.values(match).some((pattern) => pattern !== undefined), {
    error: "must name at least one of mpris, identity, role and application",
  })
  .refine(
    ({ mpris, identity, role, application }) =>
      (mpris ?? identity) === undefined || (role ?? application) === undefined,
    { error: "names a player (mpris, identity) or a stream (role, application), not both" },
  );

export const PlayersFile = z.strictObject({
  /** The first entry that matches a player decides. A player that matches none is left alone. */
  players: z
    .array(z.strictObject({ match: Match, agent: AgentId }))
    .min(1)
    .max(1_000),
  /** Whether refusals are shown as notifications of the desktop. */
  notify: z.boolean().default(false),
});
export type PlayersFile = z.infer<typeof PlayersFile>;
export type PlayerMatch = z.infer<typeof Match>;

/** Whether a text fits a pattern. Upper and lower case are the same. */
export function fits(pattern: string, text: string): boolean {
  const parts = pattern.toLowerCase().split("*");
  let rest = text.toLowerCase();
  const first = parts.shift()!;
  if (parts.length === 0) return rest === first;
  if (!rest.startsWith(first)) return false;
  rest = rest.slice(first.length);
  const last = parts.pop()!;
  for (const part of parts) {
    const at = rest.indexOf(part);
    if (at < 0) return false;
    rest = rest.slice(at + part.length);
  }
  return rest.endsWith(last);
}
