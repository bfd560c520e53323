import { type Client, ClientError } from "../client/interlock-client.ts";
import { EVERY_ZONE } from "../protocol/ids.ts";
import type { ZoneAnswer } from "../protocol/zone-answer.ts";
import { fit, type Report, table } from "./reports.ts";

interface Announcement {
  text: string;
  user: string;
  /** Default: the catalogue's default agent. */
  agent?: string | undefined;
}

/**
 * `interlock announce`: tell a text on each open floor of a user, and what each decided. For an external agent the text
 * is the title of its sessions.
 */
export async function reportAnnouncement(client: Client, announcement: Announcement): Promise<Report> {
  const zones = await zonesOf(client, announcement);
  const rows = zones.map(({ zone = "", decision, errorCode = "", error = "" }) => [
    zone,
    decision?.outcome ?? errorCode,
    decision?.reason ?? "",
    decision?.say ?? error,
  ]);
  const isFaulty = zones.every(({ sessionId }) => sessionId === undefined);
  return { facts: { zones }, lines: table(["ZONE", "DECISION", "REASON", "SAID"], rows).map(fit), isFaulty };
}

async function zonesOf(client: Client, { text, user, agent }: Announcement): Promise<ZoneAnswer[]> {
  const { agents, defaultAgentId } = await client.listAgents();
  const named = agents.find(({ id }) => id === (agent ?? defaultAgentId));
  // A player takes no turns: it shows or speaks the title of its session.
  const what = named?.external ? { title: text } : { content: text };
  const wanted = { userId: user, zone: EVERY_ZONE, ...what, ...(agent !== undefined && { agentId: agent }) };
  try {
    return (await client.createSession(wanted)).zones ?? [];
  } catch (error) {
    if (error instanceof ClientError && error.facts.zones) return error.facts.zones;
    throw error;
  }
}
