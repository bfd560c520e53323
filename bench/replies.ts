import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../test/support/servers/postgres-server.ts";
import { startRedis } from "../test/support/servers/redis-server.ts";
import { Child } from "./support/child.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Concurrent replies of a model, 50 tokens a second each, read by clients of OpenAI's API. */
const REPLIES = 50;
const TOKEN_MS = 20;
const TOKENS = 250;
const WARM_UP_TOKENS = 100;
/** Tokens of the runs during which memory is measured: more than are read. */
const HELD_TOKENS = 100_000;

export async function benchReplies(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-replies-"));
  const postgres = await startPostgres();
  const redis = await startRedis();
  const provider = await Child.start("provider.ts");
  process.env["BENCH_PROVIDER"] = provider.url;
  try {
    const bare = await Child.start("bare-proxy.ts");
    const reference = await readReplies(bare.url);
    await bare.stop();

    const alone = await Child.start("node.ts", ["--store", `sqlite:${join(folder, "interlock.db")}`]);
    const embedded = await readReplies(alone.url);
    const memory = await measureMemory(alone);
    await alone.stop();

    const servers = ["--store", (await postgres.makeDatabase()).url, "--bus", redis.url];
    const back = await Child.start("node.ts", [...servers, "--roles", "orchestrator,worker"]);
    const front = await Child.start("node.ts", [...servers, "--roles", "gateway"]);
    const scaled = await readReplies(front.url);
    await front.stop();
    await back.stop();

    return [
      ...delays("one node", embedded, reference),
      ...delays("through Redis", scaled, reference),
      {
        what: "p99 gap of the worst of 50 replies, one node",
        ours: embedded.worstGapMs,
        reference: TOKEN_MS,
        unit: "ms",
        atMost: 2,
      },
      {
        what: "p99 gap of the worst of 50 replies, through Redis",
        ours: scaled.worstGapMs,
        reference: TOKEN_MS,
        unit: "ms",
        atMost: 3,
      },
      {
        what: "p99 gap of the worst of 50 replies, bare proxy",
        ours: reference.worstGapMs,
        reference: TOKEN_MS,
        unit: "ms",
      },
      {
        what: "memory per running turn, compared with 1 MB",
        ours: memory / 1_000,
        reference: 1_000,
        unit: "kB",
        atMost: 1,
      },
    ];
  } finally {
    delete process.env["BENCH_PROVIDER"];
    await provider.stop();
    await redis.stop();
    await postgres.stop();
    rmSync(folder, { recursive: true });
  }
}

interface Timings {
  /** For each token, from the provider's chunk to the client's frame. */
  delaysMs: number[];
  /** The p99 of the gaps between the tokens of a reply, for the worst reply. */
  worstGapMs: number;
}

const delays = (where: string, ours: Timings, reference: Timings): Row[] =>
  [0.5, 0.99].map((share) => ({
    what: `provider's chunk → client's frame, p${share * 100}, ${where}`,
    ours: quantile(ours.delaysMs, share),
    reference: quantile(reference.delaysMs, share),
    unit: "ms",
  }));

/** Read `REPLIES` replies at once, after a round that warms up. */
async function readReplies(url: string): Promise<Timings> {
  await Promise.all(Array.from({ length: REPLIES }, () => read(url, WARM_UP_TOKENS)));
  const replies = await Promise.all(Array.from({ length: REPLIES }, () => read(url, TOKENS)));
  return {
    delaysMs: replies.flatMap((tokens) => tokens.map(({ sentAt, arrivedAt }) => arrivedAt - sentAt)),
    worstGapMs: Math.max(...replies.map((tokens) => quantile(gapsOf(tokens), 0.99))),
  };
}

interface Token {
  sentAt: number;
  arrivedAt: number;
}

const gapsOf = (tokens: readonly Token[]) =>
  tokens.slice(1).map(({ arrivedAt }, index) => arrivedAt - tokens[index]!.arrivedAt);

let sessions = 0;

function ask(url: string, tokens: number, signal?: AbortSignal): Promise<Response> {
  const body = {
    model: "model",
    stream: true,
    messages: [{ role: "user", content: `tokens:${tokens}` }],
    // A session with a name is not archived after its reply.
    metadata: { session: `bench-${sessions++}` },
  };
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

async function read(url: string, count: number): Promise<Token[]> {
  const tokens: Token[] = [];
  const answer = await ask(url, count);
  let rest = "";
  for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
    const arrivedAt = Number(process.hrtime.bigint()) / 1e6;
    const frames = (rest + piece).split("\n\n");
    rest = frames.pop()!;
    for (const frame of frames) {
      // A reader that was behind gets several tokens in one frame.
      const [, content = ""] = /"content":"([\d ]*)"/.exec(frame) ?? [];
      for (const sent of content.split(" ").filter(Boolean)) tokens.push({ sentAt: Number(sent) / 1e6, arrivedAt });
    }
  }
  if (tokens.length !== count) throw new Error(`${tokens.length} of ${count} tokens came`);
  return tokens;
}

/** Memory per running turn in bytes, including its reader. */
async function measureMemory(node: Child): Promise<number> {
  const before = await node.memory();
  const end = new AbortController();
  const answers = await Promise.all(Array.from({ length: REPLIES }, () => ask(node.url, HELD_TOKENS, end.signal)));
  const readers = answers.map(async ({ body }) => {
    let seen = 0;
    // Each run must have written text before memory is measured.
    for await (const piece of body!) {
      seen += piece.byteLength;
      if (seen > 20_000) break;
    }
  });
  await Promise.all(readers);
  const during = await node.memory();
  end.abort();
  return (during.heap - before.heap) / REPLIES;
}
