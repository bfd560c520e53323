import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, typesOf } from "../../support/clients/e2e-client.ts";
import {
  type Recording,
  readAgents,
  readRecording,
  restorePostgres,
  restoreSqlite,
} from "../../support/nodes/former-release.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { chooseServer, describeWith } from "../../support/servers/server-choice.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

/**
 * A database that the former release wrote, opened by this one: nothing that the former release acknowledged is lost or
 * changed.
 */

const { default_agent, agents } = await readAgents();

/** Sessions whose runs the kill interrupted: this release continues them, so they change. */
const INTERRUPTED = ["ann-music", "cat-question", "dan-confirmation", "fay-running", "gus-stacked"];
const isAtRest = (path: string) => /^\/session\/(?!list)/.test(path) && !INTERRUPTED.some((id) => path.includes(id));

function upgradeSuite(name: "sqlite" | "postgres", open: (recording: Recording) => Promise<string>): void {
  let node: NodeUnderTest;
  let recording: Recording;

  beforeAll(async () => {
    recording = await readRecording(name);
    const settings = { INTERLOCK_STORE: await open(recording), INTERLOCK_INTERACTION_TIMEOUT: "1h" };
    node = await NodeUnderTest.start({ agents, catalog: { default_agent }, settings });
  });
  afterAll(() => node?.stop());

  const client = (userId: string) => new E2eClient(node, userId);

  test("every read of an idle session answers as the former release did", async () => {
    const paths = Object.keys(recording.reads).filter(isAtRest);
    expect(paths.length).toBeGreaterThan(10);
    for (const path of paths) {
      const { status, body } = await node.get(path);
      expect({ status, body }, path).toMatchObject(recording.reads[path]!);
    }
  });

  test("each floor has its former holder, paused and queued sessions, flags and decisions", async () => {
    const paths = Object.keys(recording.reads).filter((path) => path.startsWith("/floor/"));
    expect(paths.length).toBe(4);
    for (const path of paths) {
      const { body } = await node.get(path);
      const before = recording.reads[path]!.body as unknown as typeof body;
      const ids = ({ holder, paused, queued }: typeof body) => ({
        holder: holder?.id,
        paused: paused.map(({ id }) => id),
        queued: queued.map(({ id }) => id),
      });
      expect(ids(body), path).toEqual(ids(before));
      expect(body.flags, path).toEqual(before.flags);
      expect(body.decisions, path).toMatchObject(before.decisions);
    }
  });

  test("a stream resumed at any position of the former release sends the events that release sent after it", async () => {
    for (const [path, events] of Object.entries(recording.streams)) {
      for (const place of new Set([0, Math.floor(events.length / 2), Math.max(0, events.length - 2)])) {
        const after = events.slice(place + 1);
        if (after.length === 0) continue;
        const stream = await node.stream(`${path}?lastEventId=${events[place]!.id}`);
        const heard = await stream.until(({ id }) => id === events.at(-1)!.id);
        await stream.close();
        expect(heard, `${path} after ${place}`).toMatchObject(after);
        expect(heard.length, `${path} after ${place}`).toBe(after.length);
      }
    }
  });

  test("each repeated write gets the answer that the former release gave", async () => {
    for (const { method, path, body, key, answer } of recording.keyed) {
      const content = JSON.stringify(body);
      const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content) };
      const repeated = await node.send(method, path, { ...headers, "Idempotency-Key": key }, content);
      const { traceId: _, ...before } = answer.body;
      expect({ status: repeated.status, body: repeated.body }, `${key}: ${method} ${path}`).toMatchObject({
        status: answer.status,
        body: before,
      });
    }
  });

  test("a list has the same sessions as before", async () => {
    const path = "/session/list?includeArchived=true&pageSize=200";
    const { body } = await node.get(path);
    const before = recording.reads[path]!.body as unknown as typeof body;
    expect(body.total).toBe(before.total);
    expect(body.sessions.map(({ id }) => id).sort()).toEqual(before.sessions.map(({ id }) => id).sort());
  });

  test("a search finds the same sessions as before", async () => {
    const paths = Object.keys(recording.reads).filter((path) => path.startsWith("/session/list?q="));
    expect(paths.length).toBe(2);
    for (const path of paths) {
      const found = ({ sessions }: { sessions: { id: string }[] }) => sessions.map(({ id }) => id).sort();
      const { body } = await node.get(path);
      expect(found(body), path).toEqual(found(recording.reads[path]!.body as unknown as typeof body));
    }
  });

  test("an answer keeps the lines of output that were logged with it", async () => {
    const messages = await client("ann").messages("ann-music");
    const { id } = messages.find(({ content }) => content === "It rains.")!;
    const { logs } = await accepted(node.get(`/session/ann-music/messages/${id}/logs`));
    expect(logs).toMatchObject([{ id: "line-1", stream: "stdout", text: "a line of output" }]);
  });

  test("an image of the former release is served unchanged", async () => {
    const messages = await client("ann").messages("ann-music");
    const { images } = messages.find((message) => message.images !== undefined)!;
    const { bytes, headers } = await node.get(`/session/ann-music/images/${images![0]!.hash}`);
    expect(bytes.toString()).toBe("not really a picture");
    expect(headers["content-type"]).toBe("image/png");
  });

  test("a run that waited for an answer starts again and asks again, and the answer ends it", async () => {
    const cat = client("cat");
    await answerAgain("cat-question", "user_question_request", { type: "user_question_response", response: "b" });
    const messages = await cat.messages("cat-question");
    expect(messages.at(-1)).toMatchObject({ role: "assistant", status: "success", content: "You chose b." });
  });

  test("a run that waited for a confirmation asks for it again, and continues when it is given", async () => {
    const dan = client("dan");
    const confirm = { type: "tool_confirmation_response", response: "approve" };
    await answerAgain("dan-confirmation", "tool_confirmation_request", confirm);
    const messages = await dan.messages("dan-confirmation");
    expect(messages.at(-1)).toMatchObject({ role: "assistant", status: "success", content: "Deleted." });
  });

  test("a turn that waited behind a question runs once the question is answered", async () => {
    const gus = client("gus");
    await answerAgain("gus-stacked", "user_question_request", { type: "user_question_response", response: "a" }, 2);
    const messages = await gus.messages("gus-stacked");
    expect(messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
      "ask me",
      "hello afterwards",
    ]);
    expect(messages.filter(({ role }) => role === "assistant").map(({ content }) => content)).toEqual([
      "You chose a.",
      "Hello.",
    ]);
  });

  test("a run that was interrupted by the kill is in progress again, and can be aborted", async () => {
    const fay = client("fay");
    const stream = await fay.follow("fay-running");
    await accepted(fay.send({ type: "abort", sessionId: "fay-running" }));
    const events = await stream.until("complete");
    expect(events.at(-1)!.data).toMatchObject({ cancelled: true });
    expect((await fay.see("fay-running")).activity).toBe("idle");
  });

  test("the session that a call interrupted resumes when the call ends, and its held run continues", async () => {
    const ann = client("ann");
    await accepted(ann.on("ann-call", "archive"));
    expect(await ann.see("ann-music")).toMatchObject({ state: "active", activity: "running" });
    await accepted(ann.send({ type: "abort", sessionId: "ann-music" }));
    expect(typesOf(await ann.talk("ann-music", "hello again"))).toContain("complete");
  });

  test("a session that its user paused resumes, and accepts turns", async () => {
    const ben = client("ben");
    await accepted(ben.on("ben-paused", "resume"));
    await ben.talk("ben-paused", "hello again");
    expect((await ben.messages("ben-paused")).at(-1)).toMatchObject({ role: "assistant", status: "success" });
  });

  /**
   * Answer the interaction that the run's next attempt opens, and wait for the end of `count` runs. The former
   * release's interaction ended with the worker that waited for it.
   */
  async function answerAgain(sessionId: string, type: string, response: object, runs = 1): Promise<void> {
    const events = recording.streams[`/session/${sessionId}/events`]!;
    const stream = await node.stream(`/session/${sessionId}/events?lastEventId=${events.at(-1)!.id}`);
    const resolved = await stream.find("interaction_resolved");
    expect(resolved.requestId).toBe(events.find((event) => event.type === type)!.requestId);
    const { requestId } = await stream.find(type);
    await accepted(node.post("/message", { sessionId, requestId, ...response }));
    for (let count = 0; count < runs; count += 1) await stream.until("complete");
    await stream.close();
  }
}

describe("a SQLite file of the former release", () => {
  const place = makeFolder();
  afterAll(async () => (await place).remove());

  upgradeSuite("sqlite", async (recording) => {
    const { file } = await place;
    await restoreSqlite(file, recording);
    return `sqlite:${file}`;
  });
});

describeWith(POSTGRES, await chooseServer(POSTGRES), "a PostgreSQL database of the former release", (start) => {
  const server = start();
  afterAll(async () => (await server).stop());

  upgradeSuite("postgres", async (recording) => {
    const { url } = await (await server).makeDatabase();
    await restorePostgres(url, recording);
    return url;
  });
});
