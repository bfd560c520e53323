/** `phone.ts FILE`: a phone call. The file is the caller's voice. SIGTERM ends the call. */
import { playLooped } from "./looped-sound.ts";

await playLooped(process.argv[2] ?? "", { agentId: "phone_agent", sink: "phone" });
