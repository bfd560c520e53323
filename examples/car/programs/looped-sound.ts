import { Player } from "../sound/player.ts";
import { readEnvironment } from "./environment.ts";
import { Participant } from "./participant.ts";

/**
 * Play a file in a loop while the session may be heard. SIGTERM ends the session.
 *
 * @returns when the session has ended
 */
export async function playLooped(file: string, { agentId, sink }: { agentId: string; sink: string }): Promise<void> {
  const { client, userId } = readEnvironment();
  const player = new Player(file, { sink, isLooped: true });
  const participant = await Participant.join(client, agentId, userId, player);
  process.once("SIGTERM", () => void participant.leave());
  await participant.ended;
  await player.close();
}
