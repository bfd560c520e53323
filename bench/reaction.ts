import { Child } from "./support/child.ts";
import { Connection } from "./support/connection.ts";
import { listen } from "./support/listener.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/**
 * From the phone's request to `paused` at a reader of the music's session, compared with a bare request, and with a
 * bare request that is committed to disk.
 */
const CALLS = 1_000;
const WARM_UP = 300;

export async function benchReaction(): Promise<Row[]> {
  const bare = await Child.start("bare-http.ts");
  const durable = await Child.start("bare-commands.ts");
  const ours = await Child.start("interlock.ts");
  const durableConnection = await Connection.open(durable.url);
  const bareConnection = await Connection.open(bare.url);
  const phone = await Connection.open(ours.url);
  const create = (agentId: string) =>
    phone.post<{ session: { id: string } }>("/session/create", { agentId, userId: "ann", activate: true });
  const music = (await create("music")).session.id;
  const listener = await listen(ours.url, `/session/${music}/events`);

  const trips: number[] = [];
  const commits: number[] = [];
  const reactions: number[] = [];
  for (let call = 0; call < CALLS + WARM_UP; call++) {
    const begun = performance.now();
    await bareConnection.request("POST", "/", '{"agentId":"phone","userId":"ann","activate":true}');
    const tripMs = performance.now() - begun;

    const sent = performance.now();
    await durableConnection.request("POST", "/", `{"floor":"ann","type":"${call % 2 ? "resume" : "pause"}"}`);
    const commitMs = performance.now() - sent;

    const paused = listener.hears('"to":"paused"');
    const asked = performance.now();
    const { session } = await create("phone");
    const reactionMs = (await paused) - asked;
    const resumed = listener.hears('"event":"resume"');
    await phone.request("POST", `/session/${session.id}/archive`);
    await resumed;
    if (call < WARM_UP) continue;
    trips.push(tripMs);
    commits.push(commitMs);
    reactions.push(reactionMs);
  }
  listener.close();
  phone.close();
  bareConnection.close();
  durableConnection.close();
  await bare.stop();
  await durable.stop();
  await ours.stop();
  return [
    { what: "request → paused, median", ours: quantile(reactions, 0.5), reference: quantile(trips, 0.5), unit: "ms" },
    {
      what: "request → paused, p99",
      ours: quantile(reactions, 0.99),
      reference: quantile(trips, 0.99),
      unit: "ms",
    },
    {
      what: "request → paused, p99, compared with a bare commit",
      ours: quantile(reactions, 0.99),
      reference: quantile(commits, 0.99),
      unit: "ms",
      atMost: 3,
    },
  ];
}
