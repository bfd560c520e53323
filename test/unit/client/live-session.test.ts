import { expect, test } from "vitest";
import type { Client } from "../../../src/client/client.ts";
import { LiveSession } from "../../../src/client/live/live-session.ts";
import { until } from "../../support/clients/live-view.ts";
import { logEvent } from "../../support/documents/log-event.ts";

test("a live session shows that its request waits, that the wait ended, and that its time has come", async () => {
  const arrivals = ["queued", "timeout", "fired"].map(() => Promise.withResolvers<void>());
  const decided = (outcome: string, reason: string) => ({ outcome, reason, challenger: { priority: 5 } });
  const events = [
    logEvent(0, "arbitration", decided("queued", "lower_priority"), "s"),
    logEvent(1, "arbitration", decided("rejected", "queue_timeout"), "s"),
    logEvent(2, "session_updated", { fired: { at: 1 } }, "s"),
  ];
  const session = { id: "s", state: "created", activity: "idle" };
  const answers = [{ queuedAt: 1, schedule: { at: 1 } }, { schedule: { at: 1 } }, {}];
  const client = {
    loadSession: async () => ({
      session: { ...session, schedule: { at: 1 }, messages: [], hasMore: false },
      position: "e.0",
    }),
    getSession: async () => ({ session: { ...session, ...answers.shift() } }),
    openSession: () =>
      (async function* () {
        for (const [index, event] of events.entries()) {
          await arrivals[index]!.promise;
          yield event;
        }
        await new Promise(() => {});
      })(),
  };
  const live = new LiveSession(client as unknown as Client, "s");
  await until(live, ({ session }) => session !== undefined && session.queuedAt === undefined);
  arrivals[0]!.resolve();
  await until(live, ({ session }) => session?.queuedAt !== undefined);
  arrivals[1]!.resolve();
  await until(live, ({ session }) => session?.queuedAt === undefined);
  arrivals[2]!.resolve();
  await until(live, ({ session }) => session?.schedule === undefined);
  expect(answers).toEqual([]);
});
