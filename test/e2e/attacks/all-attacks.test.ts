import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { type BystanderData, type Look, peakMemory } from "../../support/clients/bystander.ts";
import { headOf, oneByteChunks, RawSocket } from "../../support/networks/raw-socket.ts";
import { ChildServer } from "../../support/nodes/child-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

/**
 * The limits that a node with default settings keeps under any input: its memory in MiB, and how long it works, in ms,
 * before it has answered somebody else.
 */
const MEMORY = 700;
const HEALTH_MS = 500;
const COMMAND_MS = 1_000;

const MIB = 1_048_576;
const JSON_TYPE = { "Content-Type": "application/json" };
const ATTACKER = "127.0.0.2";

/** The fields of an answer that the tests read. */
interface Answer {
  session: { id: string };
  errorCode?: string;
}

/** An attacker's connections. All of them are closed at the end of its scene. */
class Stage {
  readonly url: string;
  readonly #sockets: RawSocket[] = [];

  constructor(url: string) {
    this.url = url;
  }

  async open(options: { from?: string; reads?: boolean } = {}): Promise<RawSocket> {
    const socket = await RawSocket.open(this.url, { from: ATTACKER, ...options });
    this.#sockets.push(socket);
    return socket;
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const content = body === undefined ? {} : { headers: JSON_TYPE, body: JSON.stringify(body) };
    const response = await fetch(this.url + path, { method, ...content });
    return (await response.json()) as Answer;
  }

  /** An active session of a separate user. */
  async session(agentId: string): Promise<string> {
    const { session } = await this.ask("POST", "/session/create", { agentId, activate: true });
    return session.id;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

type Attack = (stage: Stage) => Promise<void>;
const times = <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

/** A session whose messages have the maximum length, each with the start of its echo. */
async function longMessages(stage: Stage, count: number): Promise<string> {
  const sessionId = await stage.session("general");
  const content = "long message ".repeat(20_000);
  for (let index = 0; index < count; index++) {
    await stage.ask("POST", "/message", { type: "chat", sessionId, content });
    await stage.ask("POST", "/message", { type: "abort", sessionId });
  }
  return sessionId;
}

const ATTACKS: Record<string, Attack> = {
  async "requests without number on connections that read no answer"(stage) {
    await times(40, async () => {
      const socket = await stage.open({ reads: false });
      await socket.send(headOf("GET", "/openapi.json").repeat(4_000));
    });
    // The most that may wait on each connection, so that none is closed for it.
    await times(200, async () => {
      const socket = await stage.open({ reads: false });
      await socket.send(headOf("GET", "/openapi.json").repeat(33));
    });
  },

  async "bodies of two million chunks, to a path that does not exist and to one that does"(stage) {
    await times(8, async (index) => {
      const socket = await stage.open();
      const path = index % 2 === 0 ? "/nothing" : "/session/create";
      await socket.send(headOf("POST", path, { ...JSON_TYPE, "Transfer-Encoding": "chunked" }));
      for (let sent = 0; sent < 2_000_000 && !socket.socket.destroyed; sent += 20_000) {
        await socket.send(oneByteChunks(20_000));
      }
    });
  },

  async "bodies of tiny chunks behind a stream that is open"(stage) {
    await times(300, async () => {
      const socket = await stage.open();
      await socket.send(headOf("GET", "/events"));
      await socket.send(headOf("POST", "/message", { ...JSON_TYPE, "Transfer-Encoding": "chunked" }));
      await socket.send(oneByteChunks(60_000));
    });
  },

  async "large bodies that lack their last byte, from many addresses"(stage) {
    const head = headOf("POST", "/message", { ...JSON_TYPE, "Content-Length": 2 * MIB });
    const body = Buffer.alloc(2 * MIB - 1, 32);
    for (let address = 2; address < 10; address++) {
      await times(50, async () => {
        const socket = await stage.open({ from: `127.0.0.${address}` });
        await socket.send(head);
        await socket.send(body);
      });
    }
  },

  async "messages of combining marks"(stage) {
    const sessionId = await stage.session("general");
    const content = `a${"\u0301\u0323".repeat(31_500)}`;
    await times(10, () => stage.ask("POST", "/message", { type: "chat", sessionId, content }));
    await times(10, () => stage.ask("PATCH", `/session/${sessionId}`, { title: content.slice(0, 256) }));
    await times(10, () => stage.ask("GET", `/session/list?q=${encodeURIComponent(content.slice(0, 1_000))}`));
  },

  async "chats without number to an agent that asks back"(stage) {
    const sessions = await times(280, () => stage.session("requirement_analyzer"));
    await times(sessions.length, (index) =>
      stage.ask("POST", "/message", { type: "chat", sessionId: sessions[index], content: "a shop for umbrellas" }),
    );
  },

  async "readers of long messages that take nothing, and one that takes all"(stage) {
    const sessionId = await longMessages(stage, 60);
    await times(20, async () => {
      const socket = await stage.open({ reads: false });
      await socket.send(headOf("GET", `/session/${sessionId}/events`));
    });
    const reader = await stage.open();
    await reader.send(headOf("GET", `/session/${sessionId}/events`));
    const enough = 20 * 262_144;
    while (reader.text.length < enough && !reader.socket.destroyed) {
      await Promise.race([once(reader.socket, "data").catch(() => {}), reader.closed]);
    }
    expect(reader.text.length).toBeGreaterThanOrEqual(enough);
  },

  async "pages of long messages that nobody reads"(stage) {
    const sessionId = await longMessages(stage, 60);
    await times(100, async () => {
      const socket = await stage.open({ reads: false });
      await socket.send(headOf("GET", `/session/${sessionId}/messages?limit=500`).repeat(10));
    });
  },

  async "flags without number"(stage) {
    const flags = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`FLAG ${index}`, 1]));
    for (let index = 0; index < 5; index++) {
      expect(await stage.ask("PUT", "/floor/u%3Amallory/flags", flags)).toMatchObject({ errorCode: "too_large" });
    }
  },

  async "half-sent heads without number, of one address"(stage) {
    const halves = await times(4_000, async () => {
      const socket = await stage.open();
      await socket.send("GET /health HTTP/1.1\r\nHost: 127");
      return socket;
    });
    // The connections that were not closed to make room are closed when their time is over.
    await Promise.all(halves.map(({ closed }) => closed));
  },
};

test("a node with default settings answers other clients in bounded memory during every known attack", async () => {
  const { file, remove } = await makeFolder();
  onTestFinished(remove);
  const node = await ChildServer.start({ INTERLOCK_STORE: `sqlite:${file}` });
  const stage = new Stage(node.url);
  const { session } = await stage.ask("POST", "/session/create", { userId: "bystander", agentId: "general" });
  const workerData: BystanderData = { url: node.url, pid: node.pid, sessionId: session.id };
  const worker = new Worker(new URL("../../support/clients/bystander.ts", import.meta.url), { workerData });
  const looked = once(worker, "message") as Promise<[Look[]]>;
  // Checked after all attacks.
  looked.catch(() => {});

  for (const [name, attack] of Object.entries(ATTACKS)) {
    const scene = new Stage(node.url);
    await attack(scene);
    scene.close();
    expect(peakMemory(node.pid), `MiB after ${name}`).toBeLessThan(MEMORY);
  }

  worker.postMessage("over");
  const [looks] = await looked;
  expect(looks.length).toBeGreaterThan(10);
  const slowest = (what: keyof Look) => Math.max(...looks.map((look) => look[what]));
  expect(slowest("health"), `ms of work, of ${looks.length} looks at /health`).toBeLessThan(HEALTH_MS);
  expect(slowest("command"), `ms of work, of ${looks.length} commands`).toBeLessThan(COMMAND_MS);
}, 240_000);
