import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { Store } from "../../../src/store/store.ts";
import type { ChildServer } from "./child-server.ts";

/** Nodes over one store. A test kills one of them while it copies a history. */
export interface CopyingNodes {
  /** The node that receives the request. */
  readonly copying: ChildServer;
  /** Staged messages that belong to no session. */
  staged(): number | Promise<number>;
  /** Kill a node during the copy. @returns a node that answers afterwards */
  kill(): Promise<ChildServer>;
  /** The store after the test, without other nodes. */
  openStore(): Promise<Store>;
  /** Rows of histories: messages, staged sessions, images. */
  rows(): Promise<{ messages: number; staged: number; images: number }>;
}

/** Long enough to be killed while it is copied. */
const MESSAGES = 1_600;
const IMAGE = Buffer.from("not really a picture");
const HASH = createHash("sha256").update(IMAGE).digest("hex");
const LINES = { "Content-Type": "application/x-ndjson" };
const DAYS_MS = 3 * 86_400_000;

/** An exported session: turns of a question with an image and an answer. */
function exported(): string {
  const lines: object[] = [
    { type: "session", version: 1, title: "Long", agentId: "general" },
    { type: "image", hash: HASH, mimeType: "image/png", data: IMAGE.toString("base64") },
  ];
  for (let n = 0; n < MESSAGES; n++) {
    const role = n % 2 === 0 ? "user" : "assistant";
    const images = n === 0 ? { images: [{ hash: HASH }] } : {};
    const message = { type: "message", id: `m${n}`, role, content: `whale ${n}` };
    lines.push({ ...message, status: "success", createdAt: n, ...images });
  }
  lines.push({ type: "end", messages: MESSAGES });
  return lines.map((line) => JSON.stringify(line)).join("\n");
}

interface Answer {
  status: number;
  body: { errorCode?: string; sessionId?: string; session?: { id: string; messageCount: number } };
}

async function importSession(node: ChildServer, userId: string, key: string): Promise<Answer> {
  const path = `${node.url}/session/import?userId=${userId}`;
  const headers = { ...LINES, "Idempotency-Key": key };
  const response = await fetch(path, { method: "POST", headers, body: exported() });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}

/** The messages of a session, oldest first. */
async function exportedContents(node: ChildServer, id: string): Promise<string[]> {
  const text = await (await fetch(`${node.url}/session/${id}/export?format=jsonl`)).text();
  const lines = text.trimEnd().split("\n");
  return lines.flatMap((line) => (line.startsWith('{"type":"message"') ? [JSON.parse(line).content] : []));
}

interface Copying {
  /** Send the request; it is the same each time. */
  ask(node: ChildServer, source: string, key: string): Promise<Answer>;
  /** Messages of the copy. */
  copied: number;
  /** Whether the copy replaces its source. */
  replaces: boolean;
}

const COPYING = {
  fork: {
    ask: (node, source, key) => node.post(`/session/${source}/fork`, {}, key),
    copied: MESSAGES,
    replaces: false,
  },
  rollback: {
    ask: (node, source, key) => node.post(`/session/${source}/rollback`, { turns: 1 }, key),
    copied: MESSAGES - 2,
    replaces: true,
  },
  edit: {
    ask: async (node, source, key) => {
      const { body } = await node.ask("GET", `/session/${source}/messages?limit=2`);
      const path = `/session/${source}/messages/${body.messages[0]!.id}/edit`;
      return await node.post(path, { content: "hello", replace: true }, key);
    },
    copied: MESSAGES - 2,
    replaces: true,
  },
  move: {
    ask: (node, source, key) => node.post(`/session/${source}/move`, { zone: "rear" }, key),
    copied: MESSAGES,
    replaces: true,
  },
  import: { ask: (node, _, key) => importSession(node, "ann", key), copied: MESSAGES, replaces: false },
} satisfies Record<string, Copying>;
type What = keyof typeof COPYING;

/** The staged share at which the node is killed. The last pieces are written shortly before the commit. */
const MOMENTS = { begins: 64, "is almost done": MESSAGES - 192 };
type Moment = keyof typeof MOMENTS;

type Case = readonly [what: What, moment: Moment];

/** Kills nodes while they copy histories. */
export function copyingSuite(victim: string, cases: readonly Case[], open: () => Promise<CopyingNodes>): void {
  test.each(cases)(
    `${victim} that is killed while a copy (%s) %s leaves all of it or nothing, and a repeat has one result`,
    async (what, moment) => {
      const { ask, copied, replaces } = COPYING[what];
      const nodes = await open();
      const made = await importSession(nodes.copying, "ann", "source");
      expect(made.status, JSON.stringify(made.body)).toBe(200);
      const source = made.body.session!.id;
      expect((await nodes.copying.post(`/session/${source}/activate`)).status).toBe(200);
      const whole = await nodes.rows();

      let isOver = false;
      const asking = ask(nodes.copying, source, "copy")
        .catch(() => undefined)
        .finally(() => {
          isOver = true;
        });
      // If the check comes too late, the kill is after the commit: then the copy must be complete.
      while (!isOver && (await nodes.staged()) < MOMENTS[moment]) await new Promise((resolve) => setImmediate(resolve));
      const node = await nodes.kill();
      await asking;

      const shown = async (query: string) => {
        const { body } = await node.ask("GET", `/session/list?includeArchived=true&${query}`);
        return (body as unknown as { sessions: { id: string; messageCount: number }[] }).sessions;
      };
      // A session that was committed before the kill is complete.
      for (const query of ["userId=ann", "q=whale"]) {
        const others = (await shown(query)).filter(({ id }) => id !== source);
        expect(others.length).toBeLessThanOrEqual(1);
        for (const { messageCount } of others) expect(messageCount).toBeGreaterThanOrEqual(copied);
      }

      const answers = [await answered(node), await answered(node)];
      const idOf = ({ body }: Answer) => body.session?.id ?? body.sessionId;
      const id = idOf(answers[0]!)!;
      expect(idOf(answers[1]!)).toBe(id);
      expect((await shown("userId=ann")).map((session) => session.id).toSorted()).toEqual([source, id].toSorted());
      const contents = await exportedContents(node, id);
      expect(contents.slice(0, copied)).toEqual(Array.from({ length: copied }, (_, n) => `whale ${n}`));
      const { session } = (await node.ask("GET", `/session/${source}`)).body;
      expect([session.messageCount, session.state]).toEqual([MESSAGES, replaces ? "archived" : "active"]);

      const store = await nodes.openStore();
      const { session: kept } = (await store.viewSession(id as SessionId, 0))!;
      const now = Date.now();
      const limits = { now: now + DAYS_MS, receiptsBefore: 0, stagedBefore: now, limit: 1_000 };
      while (await store.prune(limits));
      await store.close();
      const left = await nodes.rows();
      expect(left).toEqual({ messages: whole.messages + kept.messageCount, staged: 0, images: 2 });

      /** A node that has just started does not own all its floors yet. */
      async function answered(by: ChildServer): Promise<Answer> {
        for (;;) {
          const answer = await ask(by, source, "copy");
          if (answer.status === 200) return answer;
          expect([answer.status, answer.body.errorCode]).toEqual([503, "unavailable"]);
        }
      }
    },
  );
}
