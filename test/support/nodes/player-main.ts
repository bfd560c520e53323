import { createClient } from "../../../src/client/client.ts";
import { keepLease } from "../../../src/client/live/lease.ts";

/**
 * A program that sends heartbeats for a session until it is killed. Arguments: the node's address, the session, its
 * lease.
 */
const [baseUrl, sessionId, leaseMs] = process.argv.slice(2);
const client = createClient({ baseUrl: baseUrl! });
await client.send({ type: "heartbeat", sessionId });
keepLease(client, sessionId!, true).note({ state: "active", leaseMs: Number(leaseMs) });
console.log("playing");
