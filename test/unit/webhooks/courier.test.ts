import { expect, test } from "vitest";
import type { Webhook } from "../../../src/config/webhooks-file.ts";
import type { NoticeType } from "../../../src/protocol/notice.ts";
import type { ClaimedNotice, DisabledHook, NoticeStore } from "../../../src/store/store.ts";
import { Courier } from "../../../src/webhooks/courier.ts";
import type { SendResult } from "../../../src/webhooks/sender.ts";
import type { SentMessage } from "../../../src/webhooks/signature.ts";
import { ReceivedLog } from "../../support/catalogs/watched-file.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { DAY, HOUR, NOON } from "../../support/stores/floor-writer.ts";

const ACCEPTED: SendResult = { isAccepted: true, status: 204 };
const REFUSED: SendResult = { isAccepted: false, reason: "status 503", status: 503 };

interface Lane {
  laneKey: number;
  hook: string;
  subject: string;
  dueAt: number;
  claim: string;
  failures: number;
  reason?: string | undefined;
  notices: { id: string; at: number }[];
}

/** The outbox over a list: what the contract of stores says, for the courier alone. */
class Outbox implements NoticeStore {
  readonly lanes: Lane[] = [];
  disabled: DisabledHook[] = [];
  isAway = false;
  #keys = 0;

  add(hook: string, subject: string, id: string, at: number): void {
    let lane = this.lanes.find((each) => each.hook === hook && each.subject === subject);
    if (!lane) {
      this.#keys += 1;
      lane = { laneKey: this.#keys, hook, subject, dueAt: at, claim: "", failures: 0, notices: [] };
      this.lanes.push(lane);
    }
    lane.notices.push({ id, at });
  }

  async claimNotices({ hook, receiver, claim, now, until, limit }: Parameters<NoticeStore["claimNotices"]>[0]) {
    if (this.isAway) throw new Error("away");
    if (this.disabled.some((each) => each.hook === hook && each.receiver === receiver)) return [];
    const due = this.lanes.filter((lane) => lane.hook === hook && lane.dueAt <= now).slice(0, limit);
    return due.map((lane): ClaimedNotice => {
      Object.assign(lane, { claim, dueAt: until });
      const { laneKey, subject, failures } = lane;
      return { laneKey, claim, subject, failures, payload: "{}", ...lane.notices[0]! };
    });
  }

  async settleNotice(...[claimed, now, failed]: Parameters<NoticeStore["settleNotice"]>): Promise<void> {
    if (this.isAway) throw new Error("away");
    const lane = this.lanes.find(({ laneKey }) => laneKey === claimed.laneKey);
    if (!lane) return;
    if (!failed) lane.notices = lane.notices.filter(({ id }) => id !== claimed.id);
    if (lane.claim !== claimed.claim) return;
    Object.assign(lane, { claim: "" }, failed ?? { dueAt: now, failures: 0, reason: undefined });
    this.#removeEmpty();
  }

  async countNotices() {
    return [...Map.groupBy(this.lanes, ({ hook }) => hook)].map(([hook, lanes]) => {
      const notices = lanes.flatMap((lane) => lane.notices);
      return { hook, pending: notices.length, oldestAt: Math.min(...notices.map(({ at }) => at)), failures: 0 };
    });
  }

  async dropNotices({ hook, before, keep, limit }: Parameters<NoticeStore["dropNotices"]>[0]): Promise<number> {
    const all = this.lanes.filter((lane) => lane.hook === hook).flatMap(({ notices }) => notices);
    const gone = all
      .filter(({ at }) => at < before)
      .sort((one, other) => one.at - other.at)
      .slice(0, Math.max(0, Math.min(limit, keep > 0 ? all.length - keep : limit)));
    for (const lane of this.lanes) lane.notices = lane.notices.filter((notice) => !gone.includes(notice));
    this.#removeEmpty();
    return gone.length;
  }

  async disableHook(disabled: DisabledHook): Promise<boolean> {
    if (this.disabled.some(({ hook, receiver }) => hook === disabled.hook && receiver === disabled.receiver))
      return false;
    this.disabled.push(disabled);
    return true;
  }

  async enableHook(name: string): Promise<boolean> {
    const before = this.disabled.length;
    this.disabled = this.disabled.filter(({ hook }) => hook !== name);
    return this.disabled.length < before;
  }

  disabledHooks = async () => this.disabled;

  #removeEmpty(): void {
    for (let index = this.lanes.length - 1; index >= 0; index--)
      if (this.lanes[index]!.notices.length === 0) this.lanes.splice(index, 1);
  }
}

const hookOf = (name: string): Webhook => ({
  ...{ name, url: new URL("https://example.com/"), keys: [Buffer.alloc(24)], types: new Set<NoticeType>(["decision"]) },
  ...{ agents: undefined, users: undefined, mayBePrivate: false, timeoutMs: 15_000 },
});

/** A courier on a virtual clock; `answer` is the receivers' answer to each request. */
function stage(answer: (id: string, hook: string) => SendResult | Promise<SendResult>, hooks = ["h"]) {
  const clock = new VirtualClock();
  const outbox = new Outbox();
  const log = new ReceivedLog();
  const webhooks = new Map(hooks.map((name) => [name, hookOf(name)]));
  const sent: { id: string; at: number }[] = [];
  const outcomes: Record<string, number> = {};
  let ids = 0;
  const courier = new Courier({
    store: outbox,
    clock,
    webhooks: () => webhooks,
    send: async ({ name }: Webhook, { id }: SentMessage, stopping) => {
      sent.push({ id, at: clock.now() - NOON });
      const stopped = new Promise<SendResult>((resolve) => {
        stopping.addEventListener("abort", () => resolve({ isAccepted: false, reason: "AbortError" }));
      });
      return await Promise.race([answer(id, name), stopped]);
    },
    newId: () => `c${++ids}`,
    random: () => 0,
    onOutcome: (hook, outcome, count) => {
      outcomes[`${hook} ${outcome}`] = (outcomes[`${hook} ${outcome}`] ?? 0) + count;
    },
    log: { ...log, debug: () => {}, info: log.info, warn: log.warn, error: log.error },
  });
  const add = (subject: string, id: string, hook = "h") => {
    outbox.add(hook, subject, id, clock.now());
    courier.wake(hook);
  };
  const idsSent = () => sent.map(({ id }) => id);
  return { clock, outbox, log, webhooks, sent, idsSent, outcomes, courier, add };
}

const never = new Promise<SendResult>(() => {});

test("what is not accepted is sent again after 5 s, then after twice as long each time up to an hour, for a day", async () => {
  const { clock, sent, add, courier, outcomes, outbox, log } = stage(() => REFUSED);
  courier.start();
  add("a", "1");
  await clock.advance(DAY + 2 * HOUR);
  const gaps = sent.slice(1).map(({ at }, index) => at - sent[index]!.at);
  // The lowest jitter halves each pause, and the lanes are looked through every 2 s.
  expect(gaps.slice(0, 9)).toEqual([4, 6, 10, 20, 40, 80, 160, 320, 640].map((s) => s * 1_000));
  expect(Math.max(...gaps)).toBeLessThanOrEqual(HOUR);
  expect(gaps.at(-1)).toBe(HOUR / 2);
  expect(sent.at(-1)!.at).toBeGreaterThanOrEqual(DAY);
  expect(sent.at(-2)!.at).toBeLessThan(DAY);
  expect(new Set(sent.map(({ id }) => id))).toEqual(new Set(["1"]));
  expect(outcomes).toEqual({ "h failed": sent.length, "h dropped": 1 });
  expect(outbox.lanes).toEqual([]);
  const dropped = log.all.filter(({ text }) => text.endsWith("is dropped"));
  expect(dropped).toMatchObject([
    { level: "warn", facts: { hook: "h", notice: "1", about: "a", reason: "status 503" } },
  ]);
});

test("the next notice of a session waits for the one before, and other sessions do not", async () => {
  let isUp = false;
  const { clock, idsSent, add, courier } = stage((id) => (isUp || id.startsWith("b") ? ACCEPTED : REFUSED));
  courier.start();
  for (const id of ["a1", "a2"]) add("a", id);
  for (const id of ["b1", "b2"]) add("b", id);
  await clock.advance(3_000);
  expect(idsSent()).toEqual(["a1", "b1", "b2"]);
  isUp = true;
  await clock.advance(10_000);
  expect(idsSent()).toEqual(["a1", "b1", "b2", "a1", "a2"]);
});

test("a receiver that never answers has eight requests at a time, and delays no other", async () => {
  const { clock, idsSent, add, courier, outcomes } = stage(
    (_, hook) => (hook === "slow" ? never : ACCEPTED),
    ["slow", "h"],
  );
  courier.start();
  for (let n = 0; n < 20; n++) add(`s${n}`, `slow${n}`, "slow");
  for (let n = 0; n < 20; n++) add(`s${n}`, `h${n}`);
  await clock.advance(1_000);
  expect(idsSent().filter((id) => id.startsWith("slow"))).toHaveLength(8);
  expect(outcomes).toEqual({ "h accepted": 20 });
});

test("a receiver's Retry-After is kept to, up to an hour", async () => {
  const asks = [60, 999_999];
  const { clock, sent, add, courier } = stage(() => {
    const seconds = asks.shift();
    return seconds === undefined ? ACCEPTED : { ...REFUSED, retryAfterMs: seconds * 1_000 };
  });
  courier.start();
  add("a", "1");
  await clock.advance(2 * HOUR);
  expect(sent.map(({ at }) => at)).toEqual([0, 60_000, 60_000 + HOUR]);
});

test("beyond its bound the oldest notices of a hook are dropped, counted and logged", async () => {
  const { clock, outbox, courier, outcomes, log, idsSent, webhooks } = stage(() => never);
  for (let n = 0; n < 10_003; n++) outbox.add("h", `s${n}`, `${n}`, NOON - 20_000 + n);
  await courier.sweep();
  expect(outcomes).toEqual({ "h dropped": 3 });
  expect(outbox.lanes[0]!.notices[0]!.id).toBe("3");
  expect(log.all).toMatchObject([{ level: "warn", facts: { hook: "h", dropped: 3 } }]);
  await courier.sweep();
  expect(outcomes).toEqual({ "h dropped": 3 });
  // Of a hook that the file names no more nothing is sent, and what is a day old is dropped.
  webhooks.clear();
  courier.wake("h");
  await clock.advance(DAY - 20_000);
  expect(outcomes).toEqual({ "h dropped": 3 });
  await clock.advance(20_000);
  await courier.sweep();
  await courier.sweep();
  expect(outcomes["h dropped"]).toBe(10_003);
  expect(idsSent()).toEqual([]);
});

test("a receiver that is gone disables its hook: what waits is kept for a day, and sent if the hook is enabled", async () => {
  let isGone = true;
  const { clock, idsSent, add, courier, outcomes, log, outbox } = stage(
    (_, hook) => (isGone && hook === "h" ? { ...REFUSED, status: 410 } : ACCEPTED),
    ["h", "other"],
  );
  courier.start();
  add("a", "1");
  await clock.advance(1_000);
  add("a", "2");
  add("b", "3");
  add("a", "4", "other");
  await clock.advance(DAY - 60_000);
  expect(idsSent()).toEqual(["1", "4"]);
  expect(outcomes).toEqual({ "h failed": 1, "other accepted": 1 });
  expect(log.all).toMatchObject([{ level: "warn", facts: { hook: "h", notice: "1" } }]);
  isGone = false;
  await outbox.enableHook("h");
  await clock.advance(3_000);
  expect(idsSent()).toEqual(["1", "4", "1", "3", "2"]);
  // It is gone for good: what is a day old is dropped.
  isGone = true;
  add("c", "5");
  await clock.advance(1_000);
  add("c", "6");
  await clock.advance(DAY - 2_000);
  expect(outcomes["h dropped"]).toBeUndefined();
  await clock.advance(60_000);
  expect(outcomes["h dropped"]).toBe(2);
  expect(idsSent().at(-1)).toBe("5");
  expect(outbox.lanes).toEqual([]);
});

test("a hook whose file names another address is sent to again", async () => {
  const { clock, idsSent, add, courier, webhooks } = stage(() =>
    idsSent().length === 1 ? { ...REFUSED, status: 410 } : ACCEPTED,
  );
  courier.start();
  add("a", "1");
  await clock.advance(10_000);
  webhooks.set("h", { ...hookOf("h"), url: new URL("https://example.com/moved") });
  await clock.advance(3_000);
  expect(idsSent()).toEqual(["1", "1"]);
});

test("a store that is away for a while loses nothing: what was sent before is sent again with its id", async () => {
  const { clock, outbox, idsSent, add, courier, outcomes } = stage(() => {
    outbox.isAway = idsSent().length === 1;
    return ACCEPTED;
  });
  courier.start();
  add("a", "1");
  add("a", "2");
  await clock.advance(19_000);
  expect(outcomes).toEqual({});
  outbox.isAway = false;
  await clock.advance(10_000);
  expect(idsSent()).toEqual(["1", "1", "2"]);
  expect(outcomes).toEqual({ "h accepted": 2 });
});

test("a node that stops leaves what it could not send to others, due at once, without a failure", async () => {
  const { clock, outbox, add, courier, outcomes } = stage(() => never);
  courier.start();
  add("a", "1");
  await clock.advance(1_000);
  const stopped = courier.stop(2_000);
  await clock.advance(2_000);
  await stopped;
  expect(outbox.lanes).toMatchObject([{ dueAt: clock.now(), failures: 0, notices: [{ id: "1" }] }]);
  expect(outcomes).toEqual({});
  expect(clock.timerCount).toBe(0);
});

test("a node that stood still while it had a lane does not send", async () => {
  const { clock, outbox, idsSent, courier } = stage(() => ACCEPTED);
  outbox.add("h", "a", "1", NOON);
  const take = outbox.claimNotices.bind(outbox);
  outbox.claimNotices = async (query) => {
    const claimed = await take(query);
    if (claimed.length > 0) {
      clock.jump(6_000);
      outbox.claimNotices = take;
    }
    return claimed;
  };
  courier.wake("h");
  await clock.advance(0);
  expect(idsSent()).toEqual([]);
  expect(outbox.lanes).toHaveLength(1);
});
