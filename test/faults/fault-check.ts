import { expect } from "vitest";
import { SessionReader } from "../support/clients/session-reader.ts";
import { type ChildServer, type Installation, makeInstallation } from "../support/nodes/child-server.ts";
import type { AnswerBody } from "../support/nodes/node-under-test.ts";
import { Chance } from "../support/runner/chance.ts";

const SONG = Array.from({ length: 12 }, (_, n) => `la${n} `);
const sing = (more: object = {}) => ({ kind: "scripted", replies: [{ say: SONG, delay: "5ms" }], ...more });

/** Agents that take less than a tenth of a second, and may interrupt one another. */
const CATALOG = {
  agents: [
    { name: "singer", priority: 50, when_busy: "enqueue", adapter: sing() },
    { name: "teller", priority: 50, adapter: sing({ restartable: false, yields: "abort" }) },
    { name: "caller", priority: 90, adapter: sing() },
  ],
  policy: { ties: "newest" },
};
const USERS = 3;
const CLIENTS_EACH = 2;
const ROUNDS = 4;
/** Refusals without a decision: ask again with the same key. */
const UNDECIDED = 503;
/** Refusals that need no floor: a repeat decides again, and may succeed once the connection has room. */
const WITHOUT_FLOOR = ["too_many_bindings", "session_not_found"];

/** A command with its key, and its answer: undefined while the outcome is unknown. */
interface Asked {
  method: string;
  path: string;
  body?: object;
  key: string;
  answer?: { status: number; body: AnswerBody } | undefined;
}

/**
 * A client that records each command with its key and outcome, and repeats commands without an answer. Sessions of both
 * clients of a user compete for one floor.
 */
class Client {
  readonly journal: Asked[] = [];
  readonly connection: SessionReader;
  readonly #name: string;
  readonly #userId: string;
  readonly #connectionId: string;
  readonly #chance: Chance;
  readonly sessions: string[] = [];

  constructor(name: string, userId: string, connection: SessionReader, connectionId: string, chance: Chance) {
    this.#name = name;
    this.#userId = userId;
    this.connection = connection;
    this.#connectionId = connectionId;
    this.#chance = chance;
  }

  /** Send the next command, or repeat the last one if its outcome is unknown; occasionally repeat an answered one. */
  async step(node: ChildServer): Promise<void> {
    const last = this.journal.at(-1);
    if (last && !last.answer) return await this.ask(node, last);
    if (last && this.#chance.percent(15)) return await this.ask(node, this.#chance.pick(this.journal));
    const asked = this.#draw();
    this.journal.push(asked);
    await this.ask(node, asked);
  }

  /** @throws when the node is gone, or a repeat gets another answer than the first time */
  async ask(node: ChildServer, asked: Asked): Promise<void> {
    const answer = await node.ask(asked.method, asked.path, asked.body, asked.key);
    if (answer.status === UNDECIDED) return;
    const before = asked.answer?.body;
    // So is the deletion of a session that was not there.
    if (WITHOUT_FLOOR.includes(before?.errorCode ?? "") || before?.deleted === false) asked.answer = undefined;
    asked.answer ??= answer;
    const isSame = { status: answer.status, body: { ...answer.body, traceId: "" } };
    expect(isSame, `${asked.method} ${asked.path}, ${asked.key}, again`).toEqual({
      status: asked.answer.status,
      body: { ...asked.answer.body, traceId: "" },
    });
  }

  #draw(): Asked {
    const { journal } = this;
    const chance = this.#chance;
    const key = `${this.#name}-${journal.length}`;
    const dice = chance.below(100);
    if (this.sessions.length === 0 || dice < 18) {
      const id = `${key}-s`;
      this.sessions.push(id);
      const connectionId = chance.percent(60) ? { connectionId: this.#connectionId } : {};
      const body = { id, userId: this.#userId, activate: chance.percent(60), ...connectionId };
      return {
        method: "POST",
        path: "/session/create",
        body: { ...body, agentId: chance.pick(["singer", "teller", "caller"]) },
        key,
      };
    }
    const id = chance.percent(70) ? this.sessions.at(-1)! : chance.pick(this.sessions);
    const path = `/session/${id}`;
    if (dice < 55)
      return { method: "POST", path: "/message", body: { type: "chat", sessionId: id, content: key }, key };
    if (dice < 65) return { method: "PATCH", path, body: { title: key }, key };
    if (dice < 70) return { method: "DELETE", path, key };
    const verb = chance.pick(["activate", "pause", "resume", "stop", "archive"]);
    return { method: "POST", path: `${path}/${verb}`, body: {}, key };
  }
}

/**
 * Random commands of several clients on a real node that is killed again and again. At the end every command is
 * repeated, and the data is read in three ways: by connections and floors that were followed all the time, by each
 * session's stream from its beginning, and as sessions and messages. Acknowledged commands must be there once, readers
 * must have missed and repeated nothing, no floor may have had two holders, and repeats must have got the same answers.
 */
export async function checkFaults(seed: number): Promise<{ commands: number; done: number; kills: number }> {
  const chance = new Chance(seed);
  const installation = await makeInstallation(CATALOG);
  let node = await installation.start();
  const clients: Client[] = [];
  const floors: SessionReader[] = [];
  for (let user = 0; user < USERS; user++) {
    const floor = new SessionReader(`${node.url}/floor/${encodeURIComponent(`u:user-${user}`)}/events`);
    // A floor's stream contains a part of each session.
    floor.transcript.maySkip = true;
    floors.push(await floor.open());
    for (let n = 0; n < CLIENTS_EACH; n++) {
      const connection = new SessionReader(`${node.url}/events`);
      // Of a session that was deleted while its reader was away only the last event is left. Other sessions are checked
      // at the end.
      connection.transcript.maySkip = true;
      await connection.open();
      const { connectionId } = (await connection.stream.next("connected")).data;
      clients.push(new Client(`c${user}${n}`, `user-${user}`, connection, connectionId, chance));
    }
  }
  const readers = [...floors, ...clients.map(({ connection }) => connection)];
  for (let round = 0; round < ROUNDS; round++) {
    await storm(node, clients, readers, chance, 40 + chance.below(60));
    node = await restart(installation, readers);
  }
  const journal = clients.flatMap((client) => client.journal);
  for (const client of clients) {
    for (const asked of client.journal) while (!asked.answer) await client.ask(node, asked);
    for (const asked of client.journal) await client.ask(node, asked);
  }
  // A paused session keeps its run, which ends with the session.
  const sessions = new Set(clients.flatMap(({ sessions }) => sessions));
  for (const id of sessions) await node.post(`/session/${id}/stop`);
  await audit(node, clients, floors);
  for (const reader of readers) {
    reader.check();
    reader.close();
  }
  node.signal("SIGTERM");
  expect(await node.ended).toEqual({ code: 0, signal: null });
  const done = journal.filter(({ answer }) => answer!.status === 200).length;
  return { commands: journal.length, done, kills: ROUNDS };
}

/** After this many commands the node gets SIGKILL, while others are in progress. */
async function storm(
  node: ChildServer,
  clients: readonly Client[],
  readers: readonly SessionReader[],
  chance: Chance,
  commands: number,
): Promise<void> {
  let left = commands;
  let dead: Promise<void> | undefined;
  /** Readers that are reconnecting: another client does not use them. */
  const coming = new Set<SessionReader>();
  const work = async (client: Client) => {
    try {
      while (left > 0) {
        left -= 1;
        await client.step(node);
        const reader = chance.pick(readers);
        if (!chance.percent(10) || coming.has(reader)) continue;
        coming.add(reader);
        await reader.open().finally(() => coming.delete(reader));
      }
    } catch (error) {
      // The node died during a request.
      if (!dead || (error as Error).name === "AssertionError") throw error;
    }
    dead ??= node.kill();
  };
  const results = await Promise.allSettled(clients.map(work));
  await dead;
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

async function restart(installation: Installation, readers: readonly SessionReader[]): Promise<ChildServer> {
  const node = await installation.start();
  for (const reader of readers) {
    reader.moveTo(node.url);
    await reader.open();
    reader.check();
  }
  return node;
}

async function audit(node: ChildServer, clients: readonly Client[], floors: readonly SessionReader[]): Promise<void> {
  const journal = clients.flatMap((client) => client.journal);
  const accepted = journal.filter(({ answer }) => answer!.status === 200);
  const created = accepted
    .filter(({ path }) => path === "/session/create")
    .map(({ answer }) => answer!.body.session.id);
  const deleted = new Set(accepted.filter(({ method }) => method === "DELETE").map(({ path }) => path.split("/")[2]));
  for (const id of created) {
    const { status, body } = await node.ask("GET", `/session/${id}`);
    if (deleted.has(id)) {
      expect(status, id).toBe(404);
      continue;
    }
    expect(status, id).toBe(200);
    const head = Number(body.position.split(".")[1]);
    const reader = await SessionReader.of(node, id);
    await reader.until((transcript) => transcript.seqOf(id) >= head);
    reader.check();
    reader.close();
    const log = reader.eventsOf(id);
    expect(log.filter(({ type }) => type === "session_created").length, id).toBe(1);
    const inLog = log.flatMap(({ type, data }) => (type === "message" && data["role"] === "user" ? data.content : []));
    const { messages } = (await node.ask("GET", `/session/${id}/messages?limit=500`)).body;
    const inView = messages.filter(({ role }) => role === "user").map(({ content }) => content);
    const said = accepted.filter(({ body: asked }) => isChatOf(asked, id)).map(({ key }) => key);
    // Each way of reading has every acknowledged message once, and no other.
    expect([...inLog].sort(), id).toEqual([...said].sort());
    expect([...inView].sort(), id).toEqual([...said].sort());
    // Each acknowledged run ended once, and each acknowledged title was given once, and no refused one.
    const runs = accepted.flatMap(({ body: asked, answer }) => (isChatOf(asked, id) ? answer!.body.runId : []));
    const ended = log.flatMap(({ type, data }) => (type === "complete" ? data.runId : []));
    expect([...ended].sort(), id).toEqual([...runs].sort());
    const asked = journal.filter(({ method, path }) => method === "PATCH" && path === `/session/${id}`);
    const given = asked.filter(({ answer }) => answer!.status === 200).map(({ key }) => key);
    const titles = log.flatMap(({ type, data }) => (type === "session_updated" && data.title) || []);
    const renamed = titles.filter((title) => asked.some(({ key }) => key === title));
    expect([...renamed].sort(), id).toEqual([...given].sort());
    // What was followed through all kills is the same log.
    for (const { connection } of clients) {
      const followed = connection.transcript.logs.get(id) ?? [];
      const known = new Map(log.map((event) => [event.seq, event]));
      const from = followed[0]?.seq ?? 0;
      expect(
        followed.map(({ seq }) => seq),
        `${id} without a gap`,
      ).toEqual(followed.map((_, index) => from + index));
      for (const { seq, type, data } of followed) {
        expect([type, data], `${id} ${seq}`).toEqual([known.get(seq!)!.type, known.get(seq!)!.data]);
      }
    }
    const transitions = log.filter(({ type }) => type === "session_transition").map(({ seq }) => seq);
    const seenByFloor = floors.flatMap(({ transcript }) => transcript.logs.get(id) ?? []);
    const seqs = seenByFloor.filter(({ type }) => type === "session_transition").map(({ seq }) => seq);
    expect(seqs, id).toEqual(transitions);
  }
}

const isChatOf = (body: object | undefined, id: string): boolean =>
  body !== undefined && "sessionId" in body && body.sessionId === id;
