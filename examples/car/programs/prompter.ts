/** `prompter.ts WORDS`: speaks one prompt of the route guidance, and ends. */
import { join } from "node:path";
import { Player } from "../sound/player.ts";
import { synthesise } from "../sound/speech.ts";
import { readEnvironment } from "./environment.ts";
import { Participant } from "./participant.ts";

const [, , words = ""] = process.argv;
const { client, userId, folder } = readEnvironment();
// Synthesised before the request for the floor, so that the music is not lowered during the synthesis.
const player = new Player(await synthesise(words, join(folder, `prompt-${process.pid}.wav`)), { sink: "voice" });
const participant = await Participant.join(client, "prompt_agent", userId, player);
await Promise.race([player.ended, participant.ended]);
await participant.leave();
await player.close();
