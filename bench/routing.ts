import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** A sentence that one of 1,000 patterns routes, compared with the same message that names its agent. */
const SENTENCES = 2_000;
const WARM_UP = 500;
const CONTENT = "would you tell me a joke about the rain";

export async function benchRouting(): Promise<Row[]> {
  const node = await Child.start("interlock.ts", ["", "routed"]);
  const connection = await Connection.open(node.url);
  const routed: number[] = [];
  const named: number[] = [];
  /** Each has a floor of its own. */
  const say = async (userId: string, agentId?: string) => {
    const begun = performance.now();
    const body = JSON.stringify({ type: "chat", userId, content: CONTENT, agentId });
    const { status } = await connection.request("POST", "/message", body);
    if (status !== 200) throw new Error(`the message was answered with ${status}`);
    return performance.now() - begun;
  };
  for (let index = 0; index < SENTENCES + WARM_UP; index++) {
    const routedMs = await say(`routed-${index}`);
    const namedMs = await say(`named-${index}`, "chat");
    if (index < WARM_UP) continue;
    routed.push(routedMs);
    named.push(namedMs);
  }
  connection.close();
  await node.stop();
  return [0.5, 0.99].map((share) => ({
    what: `a sentence routed by one of 1,000 patterns, p${share * 100}, compared with the message that names the agent`,
    ours: quantile(routed, share),
    reference: quantile(named, share),
    unit: "ms",
    ...(share === 0.5 && { atMost: 1.25 }),
  }));
}
