/** `npm run chat-example`: a small product with a chat, on this machine. */
import { once } from "node:events";
import { startChat } from "./start-chat.ts";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());
await using chat = await startChat({ port: Number(process.env["PORT"] ?? 4_000) });
console.log(`The chat is at ${chat.url}. Sign in as ann (tulip) or bob (canal). Ctrl+C ends it.`);
if (!stopping.signal.aborted) await once(stopping.signal, "abort");
