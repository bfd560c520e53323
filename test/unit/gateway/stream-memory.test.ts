import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { FastifyRequest } from "fastify";
import { expect, onTestFinished, test } from "vitest";
import { EventStream } from "../../support/clients/event-stream.ts";
import { place } from "../../support/nodes/connection-stage.ts";
import { collectGarbage } from "../../support/runner/heap.ts";

/** The channel on which Fastify publishes each request that reaches its handler. */
const HANDLED = "tracing:fastify.request.handler:start";

/** The handled requests, held by weak references. */
function watchRequests(): WeakRef<FastifyRequest>[] {
  const requests: WeakRef<FastifyRequest>[] = [];
  const note = (message: unknown) => requests.push(new WeakRef((message as { request: FastifyRequest }).request));
  subscribe(HANDLED, note);
  onTestFinished(() => void unsubscribe(HANDLED, note));
  return requests;
}

test.each(["/session/a/events", "/floor/u%3Aann/events", "/events"])(
  "an open stream of %s keeps no reference to its request",
  async (path) => {
    const { url, gateway, feed } = await place();
    await feed.create("a");
    const requests = watchRequests();
    const stream = await EventStream.during(`${url}${path}`);
    await stream.until(({ position }) => position !== undefined);
    // The stream's first event comes before the handler's promises have settled, which hold the request until then.
    // The error of a look that came too early would hold what it received: this one receives numbers.
    const heldCount = () => {
      collectGarbage();
      return requests.filter((request) => request.deref()).length;
    };
    expect(requests.length).toBe(1);
    await expect.poll(heldCount).toBe(0);
    expect(gateway.streams.count).toBe(1);
  },
);
