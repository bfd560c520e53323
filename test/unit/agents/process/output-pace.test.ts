import { expect, onTestFinished, test } from "vitest";
import { boundedFetch } from "../../../../src/agents/bounded-fetch.ts";
import { readLines } from "../../../../src/agents/process/line-reader.ts";
import { startProviderServer } from "../../../support/servers/provider-server.ts";

/** The most lines that are read between two counts: a count can come after the budgets of two iterations. */
const MOST_LINES = 2 * Math.ceil(4_096 / "a line\n".length);

/** What each iteration of the event loop has read, until the work is done. */
async function countIterations(work: (note: () => void) => Promise<void>): Promise<number[]> {
  const iterations = [0];
  const count = () => {
    iterations.push(0);
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  await work(() => {
    iterations.push(iterations.pop()! + 1);
  });
  clearImmediate(counting);
  return iterations;
}

async function* once(...chunks: Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks;
}

test("programs that write at the same time share an iteration of the event loop", async () => {
  const chunk = Buffer.from("a line\n".repeat(3_000));
  const order: string[] = [];
  const iterations = await countIterations(async (note) => {
    const read = async (name: string) => {
      for await (const _ of readLines(once(chunk), 1_000)) {
        if (order.at(-1) !== name) order.push(name);
        note();
      }
    };
    await Promise.all([read("a"), read("b"), read("c")]);
  });
  expect(Math.max(...iterations)).toBeLessThanOrEqual(MOST_LINES);
  expect(order.slice(0, 6).join("")).toBe("abcabc");
});

test("a provider's stream that comes at once is read in several turns of the event loop", async () => {
  const server = await startProviderServer();
  onTestFinished(() => server.close());
  server.willReply({ kind: "stream", text: Array.from({ length: 2_000 }, () => "token ") });
  const response = await boundedFetch(`${server.baseUrl}/chat/completions`, { method: "POST", body: "{}" });
  let bytes = 0;
  const sizes = await countIterations(async () => {
    for await (const piece of response.body!) {
      expect(piece.length).toBeLessThanOrEqual(4_096);
      bytes += piece.length;
    }
  });
  expect(bytes).toBeGreaterThan(100_000);
  expect(sizes.length).toBeGreaterThanOrEqual(bytes / 4_096 / 2);
});
