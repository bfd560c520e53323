/** `music-player.ts FILE`: plays a file in a loop, as loud as its session may be heard. */
import { playLooped } from "./looped-sound.ts";

await playLooped(process.argv[2] ?? "", { agentId: "music_agent", sink: "music" });
