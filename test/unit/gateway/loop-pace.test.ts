import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { LoopPace } from "../../../src/gateway/http/sockets/loop-pace.ts";
import { turn } from "../../support/runner/virtual-clock.ts";

/** A pace, the names of the started requests, and bodies that are read as far as the pace allows. */
function stage() {
  const pace = new LoopPace();
  const begun: string[] = [];
  const request = (name: string) => pace.request(() => void begun.push(name));
  const body = () => {
    const readable = new Readable({ read() {} });
    const tookPiece = pace.body(readable);
    const read = { bytes: 0, send: (bytes: number) => void readable.push(Buffer.alloc(bytes)) };
    readable.on("data", (piece: Buffer) => {
      read.bytes += piece.length;
      tookPiece(piece);
    });
    return read;
  };
  return { pace, begun, request, body };
}

const PIECE = 65_536;

test("a request begins at once while no connection is being accepted", () => {
  const { begun, request } = stage();
  request("only");
  expect(begun).toEqual(["only"]);
});

test("requests wait while connections are being accepted, and then begin in order, at most sixteen in an iteration", async () => {
  const { pace, begun, request } = stage();
  const names = Array.from({ length: 20 }, (_, index) => `request ${index}`);
  pace.noteConnection();
  for (const name of names) request(name);
  await turn();
  pace.noteConnection();
  await turn();
  expect(begun).toEqual([]);
  await turn();
  // A later request queues behind the waiting ones.
  request("late");
  const counts = [begun.length];
  while (begun.length < names.length + 1) {
    const before = begun.length;
    await turn();
    counts.push(begun.length - before);
  }
  expect(Math.max(...counts)).toBeLessThanOrEqual(16);
  expect(counts.length).toBeLessThanOrEqual(3);
  expect(begun).toEqual([...names, "late"]);
});

test("the promises of a request are settled before the next request begins", async () => {
  const { pace } = stage();
  const started: string[] = [];
  pace.noteConnection();
  for (const name of ["one", "two", "three"]) {
    pace.request(() => {
      started.push(`${name} begins`);
      void Promise.resolve().then(() => started.push(`${name} goes on`));
    });
  }
  while (started.length < 6) await turn();
  expect(started).toEqual(["one", "two", "three"].flatMap((name) => [`${name} begins`, `${name} goes on`]));
});

test("a request in the iteration after a connection waits for at most one iteration", async () => {
  const { pace, begun, request } = stage();
  pace.noteConnection();
  await turn();
  request("first");
  expect(begun).toEqual([]);
  await turn();
  expect(begun).toEqual(["first"]);
});

test("endless new connections delay a request for at most 256 iterations", async () => {
  const { pace, begun, request } = stage();
  pace.noteConnection();
  request("patient");
  let iterations = 0;
  while (begun.length === 0 && iterations < 1_000) {
    await turn();
    pace.noteConnection();
    iterations += 1;
  }
  expect(iterations).toBe(257);
});

test("at most 256 requests wait; further ones begin at once", () => {
  const { pace, begun, request } = stage();
  pace.noteConnection();
  for (let count = 0; count < 257; count++) request(`request ${count}`);
  expect(begun).toEqual(["request 256"]);
});

test("a request that arrived together with the previous one begins in a later iteration", async () => {
  const { pace, begun } = stage();
  pace.nextRequest(() => void begun.push("next"));
  expect(begun).toEqual([]);
  await turn();
  expect(begun).toEqual(["next"]);
});

test("sixteen large bodies are read in an iteration, 64 KiB of each; small ones are read at once", async () => {
  const { body } = stage();
  const bodies = Array.from({ length: 17 }, body);
  const small = body();
  for (const each of bodies) each.send(PIECE);
  await turn();
  for (const each of bodies) each.send(PIECE);
  small.send(100);
  await turn();
  const second = bodies.filter(({ bytes }) => bytes === 2 * PIECE).length;
  expect(second).toBeLessThanOrEqual(16);
  expect(small.bytes).toBe(100);
  for (let count = 0; count < 4; count++) await turn();
  expect(bodies.map(({ bytes }) => bytes)).toEqual(bodies.map(() => 2 * PIECE));
});

test("large bodies are not read while connections are being accepted", async () => {
  const { pace, body } = stage();
  const upload = body();
  upload.send(PIECE);
  await turn();
  upload.send(PIECE);
  for (let count = 0; count < 10; count++) {
    pace.noteConnection();
    await turn();
    expect(upload.bytes).toBe(PIECE);
  }
  for (let count = 0; count < 4; count++) await turn();
  expect(upload.bytes).toBe(2 * PIECE);
});

test("at most 256 bodies wait; further ones are read at once", async () => {
  const { pace, body } = stage();
  const bodies = Array.from({ length: 257 }, body);
  for (const each of bodies) each.send(PIECE);
  pace.noteConnection();
  await turn();
  for (const each of bodies) each.send(PIECE);
  pace.noteConnection();
  await turn();
  expect(bodies.map(({ bytes }) => bytes)).toEqual([...bodies.slice(1).map(() => PIECE), 2 * PIECE]);
});
