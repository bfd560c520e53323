import { expect, test } from "vitest";
import { create, messagesOf, say } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { within } from "../../support/runner/within.ts";

const confirm = { tool: "delete_file", arguments: { path: "a.txt" } };
const deletes = { kind: "scripted", replies: [{ confirm, say: ["Deleted."], otherwise: ["Kept it."] }] };
const CATALOG = {
  agents: [
    { name: "deleter", adapter: deletes },
    { name: "once", adapter: { ...deletes, restartable: false } },
  ],
};
/** A lost run is found within 10 s; on two busy cores within three times that. */
const NOTICED_MS = 30_000;

describeClusters("a confirmation whose worker is killed", (servers) => {
  test("an approval for a killed worker's call approves no call of another worker, which asks again", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG });
    const [gateway, , dying] = await cluster.startAll(["gateway"], ["orchestrator"], ["worker"]);

    /** A session whose agent waits for a confirmation. */
    async function begin(id: string, agentId: string) {
      await create(gateway, id, agentId);
      const reader = await SessionReader.of(gateway, id);
      await say(gateway, id, "delete");
      const of = (type: string) => reader.eventsOf(id, type);
      const asked = async (times: number) => {
        await reader.has(id, "tool_confirmation_request", times);
        return String(of("tool_confirmation_request").at(-1)!.requestId);
      };
      const answer = (requestId: string, response: string, key: string) =>
        gateway.post("/message", { type: "tool_confirmation_response", sessionId: id, requestId, response }, key);
      const said = async () => (await messagesOf(gateway, id)).filter(({ role }) => role === "assistant");
      const requestId = await asked(1);
      return { reader, of, asked, answer, said, requestId, completed: () => reader.has(id, "complete") };
    }

    const [early, open, single] = await Promise.all([
      begin("early", "deleter"),
      begin("open", "deleter"),
      begin("single", "once"),
    ]);
    await dying.kill();
    // The floor takes the answer; its worker never hears of it.
    expect((await early.answer(early.requestId, "approve", "approval")).status).toBe(200);
    await cluster.start(["worker"]);
    const again = Promise.all([early.asked(2), open.asked(2), single.completed()]);
    const noticedMs = await within(NOTICED_MS, "asking again", again);
    console.info(`another worker asked again after ${noticedMs} ms`);

    // An answer to the former request changes nothing, and a repeat of the first one has its answer.
    expect((await open.answer(open.requestId, "approve", "late")).status).toBe(404);
    expect((await early.answer(early.requestId, "approve", "approval")).status).toBe(200);
    const failed = { content: "", errorCode: "run_lost" };
    expect([await early.said(), await open.said(), await single.said()]).toMatchObject([[], [], [failed]]);
    expect(single.of("error").map(({ data }) => data["errorCode"])).toEqual(["run_lost"]);
    expect(single.of("tool_confirmation_request")).toHaveLength(1);

    const [second] = await again;
    expect((await early.answer(second, "approve", "second")).status).toBe(200);
    expect((await open.answer(await open.asked(2), "reject", "refusal")).status).toBe(200);
    for (const { completed } of [early, open]) await completed();
    expect((await early.said()).map(({ content }) => content)).toEqual(["Deleted."]);
    expect((await open.said()).map(({ content }) => content)).toEqual(["Kept it."]);
    for (const { reader, of } of [early, open, single]) {
      reader.check();
      // Each request was resolved once.
      expect(of("interaction_resolved")).toHaveLength(of("tool_confirmation_request").length);
    }
  }, 60_000);
});
