import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../test/support/servers/postgres-server.ts";
import { startRedis } from "../test/support/servers/redis-server.ts";
import { Child } from "./support/child.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** Replies of a model at once, 50 tokens a second each, read by clients of OpenAI's API. */
const REPLIES = 50;
const TOKEN_MS = 20;
const TOKENS = 250;
const WARM_UP_TOKENS = 100;
/** Runs that are under way while memory is measured. */
const HELD_TOKENS = 100_000;

export async function benchReplies(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-replies-"));
  const postgres = await startPostgres();
  const redis = await startRedis();
  const provider = await Child.start("provider.ts");
  process.env["BENCH_PROVIDER"] = provider.url;
  try {
    const bare = await Child.start("bare-proxy.ts");
    const beside = await play(bare.url);
    await bare.stop();

    const alone = await Child.start("node.ts", ["--store", `sqlite:${join(folder, "interlock.db")}`]);
    const embedded = await play(alone.url);
    const memory = await memoryOf(alone);
    await alone.stop();

    const servers = ["--store", (await postgres.makeDatabase()).url, "--bus", redis.url];
    const back = await Child.start("node.ts", [...servers, "--roles", "orchestrator,worker"]);
    const front = await Child.start("node.ts", [...servers, "--roles", "gateway"]);
    const scaled = await play(front.url);
    await front.stop();
    await back.stop();

    return [
      ...delays("one node", embedded, beside),
      ...delays("through Redis", scaled, beside),
      {
        what: "p99 gap of the worst of 50 replies, one node",
        ours: embedded.worstGapMs,
        beside: TOKEN_MS,
        unit: "ms",
        atMost: 2,
      },
      {
        what: "p99 gap of the worst of 50 replies, through Redis",
        ours: scaled.worstGapMs,
        beside: TOKEN_MS,
        unit: "ms",
        atMost: 2,
      },
      { what: "p99 gap of the worst of 50 replies, bare proxy", ours: beside.worstGapMs, beside: TOKEN_MS, unit: "ms" },
      { what: "memory per running turn, beside 1 MB", ours: memory / 1_000, beside: 1_000, unit: "kB", atMost: 1 },
    ];
  } finally {
    delete process.env["BENCH_PROVIDER"];
    await provider.stop();
    await redis.stop();
    await postgres.stop();
    rmSync(folder, { recursive: true });
  }
}

interface Played {
  /** From the provider's chunk to the client's frame, each token's. */
  delaysMs: number[];
  /** The p99 of the gaps between the tokens of a reply, of the worst one. */
  worstGapMs: number;
}

const delays = (where: string, ours: Played, beside: Played): Row[] =>
  [0.5, 0.99].map((share) => ({
    what: `provider's chunk → client's frame, p${share * 100}, ${where}`,
    ours: quantile(ours.delaysMs, share),
    beside: quantile(beside.delaysMs, share),
    unit: "ms",
  }));

/** Fifty replies at once, after a round that warms up. */
async function play(url: string): Promise<Played> {
  await Promise.all(Array.from({ length: REPLIES }, () => read(url, WARM_UP_TOKENS)));
  const replies = await Promise.all(Array.from({ length: REPLIES }, () => read(url, TOKENS)));
  return {
    delaysMs: replies.flatMap((tokens) => tokens.map(({ sentAt, cameAt }) => cameAt - sentAt)),
    worstGapMs: Math.max(...replies.map((tokens) => quantile(gapsOf(tokens), 0.99))),
  };
}

interface Token {
  sentAt: number;
  cameAt: number;
}

const gapsOf = (tokens: readonly Token[]) => tokens.slice(1).map(({ cameAt }, index) => cameAt - tokens[index]!.cameAt);

let sessions = 0;

function ask(url: string, tokens: number, signal?: AbortSignal): Promise<Response> {
  const body = {
    model: "model",
    stream: true,
    messages: [{ role: "user", content: `tokens:${tokens}` }],
    // A session that is named is not archived after its reply.
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
    const cameAt = Number(process.hrtime.bigint()) / 1e6;
    const frames = (rest + piece).split("\n\n");
    rest = frames.pop()!;
    for (const frame of frames) {
      // A reader that was behind gets several tokens in one frame.
      const [, content = ""] = /"content":"([\d ]*)"/.exec(frame) ?? [];
      for (const sent of content.split(" ").filter(Boolean)) tokens.push({ sentAt: Number(sent) / 1e6, cameAt });
    }
  }
  if (tokens.length !== count) throw new Error(`${tokens.length} of ${count} tokens came`);
  return tokens;
}

/** What a run that is under way keeps in memory, with its reader. */
async function memoryOf(node: Child): Promise<number> {
  const before = await node.memory();
  const end = new AbortController();
  const answers = await Promise.all(Array.from({ length: REPLIES }, () => ask(node.url, HELD_TOKENS, end.signal)));
  const readers = answers.map(async ({ body }) => {
    let seen = 0;
    // Long enough that each run has said something.
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
