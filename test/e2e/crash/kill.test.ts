import { describe, expect, onTestFinished, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import type { AnswerBody } from "../../support/nodes/node-under-test.ts";
import { Chance } from "../../support/runner/chance.ts";

const SONG = Array.from({ length: 20 }, (_, n) => `la${n} `);

/** Agents that take about a tenth of a second to answer, and may interrupt one another. */
const CATALOG = {
  agents: [
    {
      name: "singer",
      priority: 50,
      when_busy: "enqueue",
      adapter: { kind: "scripted", replies: [{ say: SONG, delay: "5ms" }] },
    },
    {
      name: "teller",
      priority: 50,
      when_busy: "interrupt",
      adapter: { kind: "scripted", replies: [{ say: SONG, delay: "5ms" }], restartable: false, yields: "abort" },
    },
  ],
  policy: { ties: "newest" },
};

interface Asked {
  method: string;
  path: string;
  body?: object;
  key: string;
  /** Undefined while the outcome is unknown. */
  answer?: { status: number; body: AnswerBody };
}

/** A client that repeats a request without an answer with the same key, and then continues. */
class Client {
  readonly journal: Asked[] = [];
  readonly #name: string;
  readonly #userId: string;
  readonly #chance: Chance;
  readonly connection: SessionReader;
  readonly #connectionId: string;
  /** All that it received. */
  readonly readers: SessionReader[];
  #sessionId: string | undefined;

  constructor(name: string, userId: string, chance: Chance, connection: SessionReader, connectionId: string) {
    this.#name = name;
    this.#userId = userId;
    this.#chance = chance;
    this.connection = connection;
    this.#connectionId = connectionId;
    this.readers = [connection];
  }

  /** Send the next request, or repeat the last one. Rejects when the node is gone. */
  async step(server: ChildServer): Promise<void> {
    const last = this.journal.at(-1);
    const asked = last && !last.answer ? last : this.#next();
    if (asked !== last) this.journal.push(asked);
    await this.ask(server, asked);
  }

  /** Archive the client's session, if it has one. */
  async leave(server: ChildServer): Promise<void> {
    if (this.#sessionId !== undefined) await server.post(`/session/${this.#sessionId}/stop`);
  }

  async ask(server: ChildServer, asked: Asked): Promise<void> {
    const { method, path, body, key } = asked;
    const answer = await server.ask(method, path, body, key);
    // Undecided: to be repeated with the same key.
    if (answer.status === 503) return;
    asked.answer ??= answer;
    expect({ ...answer.body, traceId: "" }, `${key} again`).toEqual({ ...asked.answer.body, traceId: "" });
  }

  #next(): Asked {
    const key = `${this.#name}-${this.journal.length}`;
    const post = (path: string, body: object): Asked => ({ method: "POST", path, body, key });
    if (this.#sessionId === undefined) {
      this.#sessionId = `${this.#name}-s${this.journal.length}`;
      return post("/session/create", {
        id: this.#sessionId,
        userId: this.#userId,
        agentId: this.#chance.pick(["singer", "teller"]),
        activate: this.#chance.percent(70),
        connectionId: this.#connectionId,
      });
    }
    const path = `/session/${this.#sessionId}`;
    const dice = this.#chance.below(100);
    if (dice < 55) return post("/message", { type: "chat", sessionId: this.#sessionId, content: key });
    if (dice < 70) return { method: "PATCH", path, body: { title: key }, key };
    if (dice < 80) return post(`${path}/pause`, {});
    if (dice < 90) return post(`${path}/resume`, {});
    this.#sessionId = undefined;
    return post(`${path}/archive`, {});
  }
}

describe("a node that is killed under load", () => {
  test("a node killed under load has everything that it acknowledged, exactly once, and readers get every event once", async () => {
    const chance = new Chance(11);
    const installation = await makeInstallation(CATALOG);
    let server = await installation.start();
    const read = async (path: string) => {
      const reader = new SessionReader(`${server.url}${path}`);
      onTestFinished(() => reader.close());
      return await reader.open();
    };
    const clients: Client[] = [];
    for (let n = 0; n < 6; n++) {
      const userId = `user-${n % 3}`;
      const connection = await read("/events");
      const { connectionId } = (await connection.stream.next("connected")).data;
      const client = new Client(`c${n}`, userId, chance, connection, connectionId);
      clients.push(client);
      await client.step(server);
      // The client has a position from the first event on.
      await connection.stream.until(({ position }) => position !== undefined);
      const floor = await read(`/floor/${encodeURIComponent(`u:${userId}`)}/events`);
      // The client shows only a part of the events.
      floor.transcript.maySkip = true;
      client.readers.push(await read(`/session/c${n}-s0/events`), floor);
    }
    const readers = clients.flatMap((client) => client.readers);

    for (let round = 0; round < 3; round++) {
      let left = 25 + chance.below(40);
      let isDead = false;
      const dying = server;
      const work = async (client: Client) => {
        while (left > 0) {
          await client.step(dying);
          left -= 1;
          if (chance.percent(10)) await chance.pick(client.readers).open();
        }
      };
      const working = clients.map(async (client) => {
        await work(client).catch((error) => {
          // The node died during a request.
          if (!isDead) throw error;
        });
        if (!isDead) {
          isDead = true;
          await dying.kill();
        }
      });
      await Promise.all(working);
      server = await installation.start();
      for (const reader of readers) {
        reader.moveTo(server.url);
        await reader.open();
        reader.check();
      }
    }

    // Every request without an outcome is repeated, and every answered one gets the same answer.
    for (const client of clients) {
      for (const asked of client.journal) await client.ask(server, asked);
      expect(client.journal.filter(({ answer }) => !answer)).toEqual([]);
    }
    const journal = clients.flatMap((client) => client.journal);
    const done = journal.filter(({ answer }) => answer!.status === 200);
    const runs = done.flatMap(({ answer }) => answer!.body.runId ?? []);
    expect(runs.length).toBeGreaterThan(30);

    // A paused session keeps its run, which ends with the session.
    for (const client of clients) await client.leave(server);
    for (const { connection } of clients) {
      await connection.until(({ logs }) => {
        const events = [...logs.values()].flat();
        const started = events.filter(({ type, data }) => type === "message" && data["role"] === "user");
        const ended = new Set(events.filter(({ type }) => type === "complete").map(({ data }) => data.runId));
        return started.every(({ data }) => ended.has(data.runId));
      });
    }
    const logged = clients.flatMap(({ connection }) => [...connection.transcript.logs.values()].flat());
    const count = (type: string, matches: (data: (typeof logged)[number]["data"]) => boolean) =>
      logged.filter((event) => event.type === type && matches(event.data)).length;
    for (const { method, path, key, answer } of journal) {
      const expected = answer!.status === 200 ? 1 : 0;
      if (path === "/session/create") {
        const id = answer!.body.session?.id;
        if (expected === 1)
          expect(
            count("session_created", (data) => data.id === id),
            key,
          ).toBe(1);
      } else if (path === "/message") {
        expect(
          count("message", ({ content, ["role"]: role }) => role === "user" && content === key),
          key,
        ).toBe(expected);
      } else if (method === "PATCH") {
        expect(
          count("session_updated", ({ title }) => title === key),
          key,
        ).toBe(expected);
      }
    }
    for (const runId of runs)
      expect(
        count("complete", (data) => data.runId === runId),
        runId,
      ).toBe(1);

    // A reader of one session and a reader of a connection received the same.
    for (const { connection } of clients) {
      for (const [id, events] of connection.transcript.logs) {
        const { body } = await server.ask("GET", `/session/${id}`);
        expect(events.at(-1)!.seq, id).toBe(Number(body.position.split(".")[1]));
      }
    }
    for (const reader of readers) reader.check();
    server.signal("SIGTERM");
    expect(await server.ended).toEqual({ code: 0, signal: null });
  }, 60_000);
});
