/** `phone.ts FILE`: a call. The file is the other person's voice. SIGTERM hangs up. */
import { playLooped } from "./looped-sound.ts";

await playLooped(process.argv[2] ?? "", { agentId: "phone_agent", sink: "phone" });
