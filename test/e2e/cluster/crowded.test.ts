import { test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";

const replies = [
  { match: "^ask", ask: { question: "Which one?" } },
  { match: "^play", say: ["♪ "], delay: "1h", repeat: 1_000 },
  { match: "^hello", say: ["Hello."] },
];
const CATALOG = { agents: [{ name: "general", adapter: { kind: "scripted", replies } }] };
/** More than a worker runs at a time. */
const CROWD = 280;

describeClusters("280 chats of one user", (servers) => {
  test.each([
    ["wait for an answer", "ask"],
    ["speak for hours", "play"],
  ])("280 chats of one user that %s do not delay another user's answer, over BullMQ", async (_, content) => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG });
    const [gateway] = await cluster.startAll(["gateway", "orchestrator"], ["worker"]);
    // A command that is late on a busy machine has an answer that says so, and is sent again with its key.
    const client = createClient({ baseUrl: gateway.url });
    const chat = async (id: string, userId: string, zone: string, content: string) => {
      await client.createSession({ id, agentId: "general", userId, zone, activate: true });
      await client.send({ type: "chat", sessionId: id, content });
    };
    await Promise.all(Array.from({ length: CROWD }, (_, n) => chat(`ann-${n}`, "ann", `zone-${n}`, content)));
    await chat("bob", "bob", "front", "hello");
    await (await SessionReader.of(gateway, "bob")).has("bob", "complete");
  });
});
