/** The calls from which metrics are computed. */

import { expect, onTestFinished, test } from "vitest";
import { Mailbox } from "../../src/cluster/mailbox.ts";
import { BOUNDS } from "../../src/config/bounds.ts";
import { Follower } from "../../src/gateway/streams/follower.ts";
import type { FloorId } from "../../src/protocol/ids.ts";
import type { Envelope } from "../../src/protocol/internal/command.ts";
import { encodeFloorMessage, floorTopic } from "../../src/protocol/internal/floor-message.ts";
import { FloorFeed } from "../support/floors/floor-feed.ts";
import { HostStage } from "../support/floors/host-stage.ts";
import { UnreliableBus } from "../support/networks/unreliable-bus.ts";
import { turn, VirtualClock } from "../support/runner/virtual-clock.ts";
import { KeptLog } from "../support/stores/sqlite-place.ts";
import { openTemporaryStore } from "../support/stores/temporary-store.ts";

const ANN = "u:ann" as FloorId;

test("a floor's commands are counted as waiting until they are committed", async () => {
  const stage = await HostStage.open();
  stage.store.hold();
  const asked = [stage.create("a", "music"), stage.create("b", "music")];
  await stage.store.asked(1);
  const late = stage.create("c", "music");
  const elsewhere = stage.create("d", "music", { floorId: "u:bob" });
  await stage.store.asked(2);
  expect(stage.host.unansweredCount).toBe(4);
  stage.store.release();
  await Promise.all([...asked, late, elsewhere]);
  expect(stage.host.unansweredCount).toBe(0);
});

test("a mailbox counts the waiting requests to this node and to others, and those that it repeats", async () => {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  let ids = 0;
  let repeated = 0;
  const answering = Promise.withResolvers<{ ok: true }>();
  const mailbox = new Mailbox({
    bus,
    clock,
    newId: () => `id${++ids}`,
    nodeId: "node",
    topicOf: () => "floors",
    onRepeat: () => {
      repeated += 1;
    },
  });
  mailbox.serve(
    () => answering.promise,
    (floorId) => floorId === ANN,
  );
  await mailbox.start();
  onTestFinished(() => mailbox.stop());
  const envelopeOf = (floorId: FloorId): Envelope => ({
    floorId,
    commandId: `command${++ids}`,
    bodyHash: "",
    timeoutAt: clock.now() + 5_000,
    command: { type: "floor.what_if", agentId: "music" },
  });
  const here = mailbox.send(envelopeOf(ANN));
  const elsewhere = mailbox.send(envelopeOf("u:bob" as FloorId));
  expect(mailbox.underWay).toBe(2);
  answering.resolve({ ok: true });
  await here;
  expect([mailbox.underWay, repeated]).toEqual([1, 0]);
  await clock.advance(1_100);
  expect(repeated).toBe(2);
  const refused = expect(elsewhere).rejects.toThrow("did not answer in time");
  await clock.advance(5_000);
  await refused;
  expect(mailbox.underWay).toBe(0);
});

test("a follower reports the delay of a commit, and that the store had more events than the bus delivered", async () => {
  const store = await openTemporaryStore();
  const bus = new UnreliableBus();
  const feed = new FloorFeed(store, bus);
  await feed.create("a");
  const lags: number[] = [];
  let behind = 0;
  let time = 5_000;
  const follower = await Follower.open(ANN, {
    bus,
    store,
    now: () => time,
    log: new KeptLog(),
    onReceived: (lagMs) => lags.push(lagMs),
    onBehind: () => {
      behind += 1;
    },
  });
  onTestFinished(() => follower.close());
  const tell = async (at: number) => {
    const { head } = feed.writer;
    const message = { kind: "commit" as const, floorId: ANN, prev: head, last: head + 1, entries: [], at };
    await bus.publish(floorTopic(store.epoch, ANN), encodeFloorMessage(message));
    await turn();
  };
  await tell(4_750);
  expect([lags, behind]).toEqual([[250], 0]);
  follower.learnHead(follower.floorSeq);
  expect([lags, behind]).toEqual([[250], 0]);
  bus.fate = () => "lose";
  await feed.log("a");
  await feed.log("a", 2);
  bus.fate = () => "deliver";
  await feed.log("a");
  expect(behind).toBe(1);
  // Its message may be on its way: after a second it is lost.
  follower.learnHead(feed.writer.head + 1);
  expect(behind).toBe(1);
  time += BOUNDS.reconcileMs;
  follower.learnHead(feed.writer.head + 1);
  expect(behind).toBe(2);
});

test("a host reports when a commit was durable, by its own clock", async () => {
  const stage = await HostStage.open();
  const published = await stage.hear();
  await stage.clock.advance(1_234);
  await stage.create("a", "music");
  await turn();
  expect(published[0]).toMatchObject({ kind: "commit", at: stage.clock.now() });
});
