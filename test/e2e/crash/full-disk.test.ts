import { stat } from "node:fs/promises";
import { expect } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { create, messagesOf, readiness } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { testWith } from "../../support/programs/suites.ts";

const CATALOG = { agents: [{ name: "general", when_busy: "enqueue" }] };
/** The free space of the disk. */
const ROOM_KIB = 384;
const HEAVY = "x".repeat(8_000);

testWith(
  ["bash", "prlimit"],
  "a full disk makes writes fail and nothing else, and everything works when there is room again",
  async () => {
    const installation = await makeInstallation(CATALOG);
    const first = await installation.start();
    await create(first, "a", "general");
    first.signal("SIGTERM");
    await first.ended;

    const maxFileKib = Math.ceil((await stat(installation.file)).size / 1_024) + ROOM_KIB;
    const full = await installation.start({ maxFileKib });
    const reader = await SessionReader.of(full, "a");
    const answers = new Map<string, number>();
    const say = async (server: ChildServer, key: string) => {
      const body = { type: "chat", sessionId: "a", id: key, content: `${key} ${HEAVY}` };
      const answer = await server.post("/message", body, key);
      answers.set(key, answer.status);
      return answer;
    };
    let refused = 0;
    for (let n = 0; refused < 20; n++) {
      const key = `key-${n}`;
      const { status, body } = await say(full, key);
      // Too many turns wait: that is a decision, and not a fault of the disk.
      if (status === 409) answers.delete(key);
      else if (status === 200) refused = 0;
      else {
        refused += 1;
        expect([status, body]).toMatchObject([503, { errorCode: "unavailable", retryable: true, commandId: key }]);
      }
    }
    const isRefused = async () => {
      await say(full, "key-refused");
      return await readiness(full);
    };
    await expect.poll(isRefused).toEqual([503, ["the database refuses writes: the log says why"]]);
    const accepted = [...answers].filter(([, status]) => status === 200).map(([key]) => key);
    expect(accepted.length).toBeGreaterThan(5);
    await full.logged(({ msg }) => msg === "the database refuses writes");

    // Reads and streams continue.
    expect((await full.ask("GET", "/session/a")).status).toBe(200);
    expect((await full.ask("GET", "/health")).status).toBe(200);
    const questionsAt = async (server: ChildServer) =>
      (await messagesOf(server, "a")).filter(({ role }) => role === "user").map(({ id }) => id);
    expect(await questionsAt(full)).toEqual(accepted);
    expect(reader.stream.ending).toBeUndefined();
    await reader.open();
    const hasMessage = (key: string) => reader.until(() => reader.eventsOf("a").some(({ data }) => data.id === key));
    await hasMessage(accepted.at(-1)!);
    // A connection is a small row: the remaining space may suffice for a few.
    for (let away: EventStream | undefined; away?.events.at(-1)?.data.reason !== "overloaded"; ) {
      away = await EventStream.open(`${full.url}/events`);
      expect(away.status).toBe(200);
      await away.until(({ events, ending }) => events.length > 0 || ending !== undefined);
      away.cut();
    }

    full.signal("SIGTERM");
    expect(await full.ended).toEqual({ code: 0, signal: null });

    const free = await installation.start();
    reader.moveTo(free.url);
    await reader.open();
    /** Every accepted turn has ended. */
    const isIdle = () => {
      const questions = reader.eventsOf("a", "message").filter(({ data }) => data["role"] === "user");
      return questions.length === reader.eventsOf("a", "complete").length;
    };
    // Send every key again, like a client without an answer: each has exactly one effect.
    for (const key of answers.keys()) {
      await reader.until(isIdle);
      expect((await say(free, key)).status).toBe(200);
      await hasMessage(key);
    }
    await reader.until(isIdle);
    const questions = await questionsAt(free);
    expect([...questions].sort()).toEqual([...answers.keys()].sort());
    const completed = reader.eventsOf("a", "complete").map(({ data }) => data.runId);
    expect(new Set(completed).size).toBe(completed.length);
    expect(completed.length).toBe(questions.length);
  },
);
