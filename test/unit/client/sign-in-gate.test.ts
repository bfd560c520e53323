import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import type { StreamState, StreamStatus } from "../../../src/client/event-stream.ts";
import { type Answer, frame, json, problem, SmallServer, stream } from "../../support/servers/small-server.ts";

const REFUSED = problem("unauthorized", 401);
const OK = json({ success: true });
/** For as long as a request that was sent needs to arrive, several times. */
const settle = async () => {
  for (let turn = 0; turn < 50; turn += 1) await setImmediate();
};

/** A client of a server that gives these answers; what it asked for is answered by the test. */
async function stage(...answers: Answer[]) {
  const server = await SmallServer.start(...answers);
  const asked: PromiseWithResolvers<void>[] = [];
  const signInAgain = () => {
    const question = Promise.withResolvers<void>();
    asked.push(question);
    return question.promise;
  };
  const client = createClient({ baseUrl: server.url, signInAgain, delay: async () => {} });
  return { server, client, asked, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

it("a write that was refused with 401 is sent again, with its key, after the sign-in, and nothing is sent before", async () => {
  await using place = await stage(REFUSED, OK, OK);
  const { server, client, asked } = place;
  const first = client.pauseSession("s");
  await expect.poll(() => asked.length).toBe(1);
  const second = client.getSession("t");
  await settle();
  expect(server.heard).toHaveLength(1);
  asked[0]!.resolve();
  await Promise.all([first, second]);
  const pauses = server.heard.filter(({ url }) => url === "/session/s/pause");
  expect(pauses).toHaveLength(2);
  expect(new Set(pauses.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  expect(asked).toHaveLength(1);
});

it("requests that are refused together ask for one sign-in", async () => {
  await using place = await stage(REFUSED, REFUSED, OK);
  const { server, client, asked } = place;
  const both = [client.getSession("s"), client.getSession("t")];
  await server.whenReceived(2);
  await settle();
  asked[0]!.resolve();
  await Promise.all(both);
  expect(asked).toHaveLength(1);
  expect(server.heard).toHaveLength(4);
});

it("a sign-in that the server does not accept fails with its 401, and a request that is refused again asks again", async () => {
  await using place = await stage(REFUSED, REFUSED, REFUSED, OK);
  const { client, asked } = place;
  const reading = client.getSession("s");
  await expect.poll(() => asked.length).toBe(1);
  await expect(client.signIn("wrong")).rejects.toMatchObject({ code: "unauthorized", status: 401 });
  asked[0]!.resolve();
  await expect.poll(() => asked.length).toBe(2);
  asked[1]!.resolve();
  expect(await reading).toEqual({ success: true });
});

it("a request that is aborted does not wait any longer, and one whose sign-in is given up fails with the reason", async () => {
  await using place = await stage(REFUSED);
  const { client, asked } = place;
  const leaving = new AbortController();
  const aborted = client.getSession("s", { signal: leaving.signal });
  await expect.poll(() => asked.length).toBe(1);
  const givenUp = client.getSession("t");
  leaving.abort(new Error("left"));
  await expect(aborted).rejects.toThrow("left");
  asked[0]!.reject(new Error("no sign-in"));
  await expect(givenUp).rejects.toThrow("no sign-in");
});

it("a stream that is refused with 401 waits for the sign-in, and continues after its position", async () => {
  await using place = await stage(stream([frame(1)]), REFUSED, stream([frame(2)]), (response) =>
    response.writeHead(204).end(),
  );
  const { server, client, asked } = place;
  const reported: [StreamStatus, StreamState?][] = [];
  const onStatus = (...each: [StreamStatus, StreamState?]) => void reported.push(each);
  const reading = Array.fromAsync(client.openSession("s", { onStatus }));
  await expect.poll(() => asked.length).toBe(1);
  expect(reported.at(-1)).toEqual(["waiting", { failure: expect.objectContaining({ status: 401 }) }]);
  await settle();
  expect(server.heard).toHaveLength(2);
  asked[0]!.resolve();
  expect((await reading).map(({ seq }) => seq)).toEqual([1, 2]);
  expect(server.heard.map(({ url }) => url.split("?")[1])).toEqual([
    undefined,
    ...[1, 1, 2].map((seq) => `lastEventId=e.${seq}`),
  ]);
});
