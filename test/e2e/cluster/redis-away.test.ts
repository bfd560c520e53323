import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { create, readiness } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { SseReader } from "../../support/clients/sse-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { within } from "../../support/runner/within.ts";

const CATALOG = {
  agents: [
    { name: "general" },
    { name: "singer", adapter: { kind: "scripted", replies: [{ say: ["la "], delay: "100ms", repeat: 80 }] } },
    { name: "idler", idle_timeout: "4s" },
  ],
};

describeClusters("nodes whose Redis is unavailable", (servers) => {
  const rename = (node: ChildServer, id: string, title: string) =>
    node.ask("PATCH", `/session/${id}`, { title }, `rename-${id}-${title}`);
  const say = (node: ChildServer, id: string, key?: string) =>
    node.post("/message", { type: "chat", sessionId: id, content: "sing" }, key);
  const titlesOf = (reader: SessionReader, id: string) =>
    reader.eventsOf(id, "session_updated").flatMap(({ data }) => data.title || []);

  const AWAY = [503, ["the bus is away"]];
  /** The answer to a command once the bus counts as away. One that waits for its deadline says so. */
  const REFUSED = [503, "unavailable", "the bus is away"];
  const tellOf = ({ status, body }: Awaited<ReturnType<typeof rename>>) => [status, body.errorCode, body.error];
  const turnAway = async (...nodes: ChildServer[]) => {
    for (const node of nodes) await expect.poll(() => readiness(node)).toEqual(AWAY);
  };
  const turnBack = async (...nodes: ChildServer[]) => {
    for (const node of nodes) await expect.poll(() => readiness(node)).toEqual([200, []]);
  };

  test("while Redis is frozen, writes are refused soon and never executed later, and streams continue from the store", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG });
    const redis = servers.redis();
    const [whole, door] = await cluster.startAll(["gateway", "orchestrator", "worker"], ["gateway"]);
    await create(door, "song", "singer");
    await create(door, "quiet", "general");
    const song = await SessionReader.of(door, "song");
    const quiet = await SessionReader.of(door, "quiet");
    expect((await say(door, "song")).status).toBe(200);
    await song.until(({ writing }) => [...writing.values()].some((text) => text.includes("la la")));
    redis.freeze();
    onTestFinished(() => redis.thaw());
    const late = Array.from({ length: 5 }, (_, n) => `late${n}`);
    const refused = await Promise.all(late.map((title) => rename(door, "quiet", title)));
    expect(refused.map(tellOf)).toEqual(late.map(() => REFUSED));
    await turnAway(whole, door);
    for (const node of [whole, door]) expect((await rename(node, "quiet", "later")).status).toBe(503);
    expect((await door.ask("GET", "/session/quiet")).body.session.title).toBe("New Session");
    // The run continues where it is, and its end is read from the store, long after the commands above timed out.
    await song.has("song", "complete");
    expect(await readiness(door)).toEqual(AWAY);
    redis.thaw();
    await turnBack(whole, door);
    expect((await rename(door, "quiet", "now")).status).toBe(200);
    await quiet.until(() => titlesOf(quiet, "quiet").includes("now"));
    expect(titlesOf(quiet, "quiet")).toEqual(["now"]);
    // A client without an answer asks again.
    for (const title of late) expect((await rename(door, "quiet", title)).status).toBe(200);
    await quiet.until(() => titlesOf(quiet, "quiet").length > late.length);
    expect(titlesOf(quiet, "quiet")).toEqual(["now", ...late]);
    for (const reader of [song, quiet]) reader.check();
  });

  test("while Redis is full, commands and events continue, and runs begin when it has room again", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG, settings: { INTERLOCK_LEASE: "1s" } });
    const admin = new Redis(servers.redis().url);
    onTestFinished(async () => {
      await admin.config("SET", "maxmemory", "0");
      admin.disconnect();
    });
    const [home, door] = await cluster.startAll(["orchestrator", "worker", "gateway"], ["gateway"]);
    await create(door, "quiet", "general");
    const quiet = await SessionReader.of(door, "quiet");
    await admin.config("SET", "maxmemory-policy", "noeviction");
    await admin.config("SET", "maxmemory", "1");
    const notQueued = () => home.metric("interlock_effects_not_queued_total");
    expect(await notQueued()).toBe(0);
    expect((await say(door, "quiet", "waits")).status).toBe(200);
    await expect.poll(notQueued).toBeGreaterThan(0);
    // Longer than a lease: orchestrators stay members.
    const until = Date.now() + 2_000;
    for (let n = 0; Date.now() < until; n++) expect((await rename(door, "quiet", `full${n}`)).status).toBe(200);
    const other = await cluster.start(["orchestrator"]);
    await expect.poll(() => other.metric("interlock_partitions_owned")).toBeGreaterThan(0);
    for (const node of [home, door, other]) expect(await readiness(node)).toEqual([200, []]);
    expect((await rename(door, "quiet", "last")).status).toBe(200);
    await quiet.until(() => titlesOf(quiet, "quiet").at(-1) === "last");
    expect(quiet.eventsOf("quiet", "complete")).toEqual([]);
    await admin.config("SET", "maxmemory", "0");
    const foundMs = await within("beginning what had to wait", quiet.has("quiet", "complete"));
    console.info(`a run that a full Redis did not take was completed ${foundMs} ms after Redis had room`);
    quiet.check();
  });

  test("when Redis restarts empty, or is away for a while, streams stay open and no waiting run is forgotten", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG });
    const redis = servers.redis();
    const [home, door, other] = await cluster.startAll(["gateway", "orchestrator"], ["gateway"], ["orchestrator"]);
    await create(door, "waiting", "general");
    await create(door, "idle", "idler");
    const readers = [await SessionReader.of(door, "waiting"), await SessionReader.of(home, "idle")] as const;
    const [waiting, idle] = readers;
    // There is no worker yet: the run waits in Redis, as does the idler's timer.
    expect((await say(door, "waiting", "first")).status).toBe(200);
    await redis.restart();
    await cluster.start(["worker"]);
    const foundMs = await within(
      "finding what Redis forgot",
      Promise.all([
        waiting.has("waiting", "complete"),
        idle.until((transcript) => transcript.stateOf("idle") === "paused"),
      ]),
    );
    console.info(`what Redis forgot was found in the store after ${foundMs} ms`);

    expect((await home.post("/session/idle/resume")).status).toBe(200);
    const beats = readers.map(({ stream }) => stream.comments);
    await redis.kill();
    expect(tellOf(await rename(door, "waiting", "away"))).toEqual(REFUSED);
    await turnAway(home, door, other);
    // A reader that connects now gets the history, and receives events when the bus is back.
    const newcomer = await SessionReader.of(door, "waiting");
    await newcomer.has("waiting", "complete");
    const connection = await SseReader.open(`${door.url}/events?sessionId=idle`);
    onTestFinished(() => connection.close());
    expect((await connection.next()).type).toBe("connected");
    for (const [index, { stream }] of readers.entries()) await stream.until(({ comments }) => comments > beats[index]!);
    await redis.start();
    await turnBack(home, door, other);
    expect((await rename(door, "waiting", "away")).status).toBe(200);
    expect((await say(door, "waiting", "second")).status).toBe(200);
    const backMs = await within(
      "going on",
      Promise.all([
        waiting.has("waiting", "complete", 2),
        idle.until((transcript) => transcript.stateOf("idle") === "paused"),
        newcomer.has("waiting", "complete", 2),
        connection.findState("idle", "paused"),
      ]),
    );
    console.info(`runs and timers went on ${backMs} ms after Redis was back`);
    expect(titlesOf(waiting, "waiting")).toEqual(["sing", "away"]);
    for (const { stream } of [...readers, newcomer]) expect(stream.ending).toBeUndefined();
    for (const reader of [...readers, newcomer]) reader.check();
  });
});
