import { expect, onTestFinished, test, vi } from "vitest";
import { ClientError } from "../../../src/client/client-error.ts";
import { type HeartbeatSender, keepLease } from "../../../src/client/live/lease.ts";

const begin = (isParticipant = true) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const send = vi.fn<HeartbeatSender["send"]>(async () => ({}));
  const onLapsed = vi.fn();
  return { send, onLapsed, lease: keepLease({ send }, "s", isParticipant, { onLapsed, random: () => 0.5 }) };
};
const leased = (leaseMs: number) => ({ state: "active", leaseMs }) as const;

test("a lease is renewed only by its participant, about three times per lease", () => {
  const onlooker = begin(false);
  const participant = begin();
  for (const { lease } of [participant, onlooker]) lease.note(leased(3_000));
  vi.advanceTimersByTime(1_800);
  expect(participant.send.mock.calls.map(([message]) => message)).toEqual(
    Array(3).fill({ type: "heartbeat", sessionId: "s" }),
  );
  participant.lease.stop();
  vi.advanceTimersByTime(9_000);
  expect(participant.send).toHaveBeenCalledTimes(3);
  expect(onlooker.send).not.toHaveBeenCalled();
});

test("a lease is not renewed for an agent without a lease, nor once the session is archived or paused for good", () => {
  const { send, lease } = begin();
  lease.note({ state: "active" });
  vi.advanceTimersByTime(60_000);
  expect(send).not.toHaveBeenCalled();
  for (const end of [{ state: "archived", leaseMs: 3_000 }, { state: "paused" }] as const) {
    lease.note(leased(3_000));
    lease.note(end);
    send.mockClear();
    vi.advanceTimersByTime(60_000);
    expect(send).not.toHaveBeenCalled();
  }
});

test("a lease survives heartbeats that fail or get no answer: each is given up when three others have followed", async () => {
  const { send, lease } = begin();
  send.mockRejectedValueOnce(new Error("no network"));
  send.mockImplementation(() => new Promise(() => {}));
  lease.note(leased(3_000));
  await vi.advanceTimersByTimeAsync(4_500);
  expect(send).toHaveBeenCalledTimes(6);
  const isGivenUp = () => send.mock.calls.map(([, options]) => options!.signal!.aborted);
  expect(isGivenUp()).toEqual([true, true, true, false, false, false]);
  lease.stop();
  expect(isGivenUp()).toEqual([true, true, true, true, true, true]);
});

test("a lease is renewed by heartbeats that take longer than the interval between them, and an answer ends earlier ones", async () => {
  const { send, onLapsed, lease } = begin();
  let answered = 0;
  send.mockImplementation((_, { signal } = {}) => {
    const tookMs = send.mock.calls.length === 1 ? 2_500 : 1_000;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        answered += 1;
        resolve(answered === 1 ? { leaseMs: 3_000 } : { leaseMs: 3_000, lapsed: true });
      }, tookMs);
      signal!.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal!.reason);
      });
    });
  });
  lease.note(leased(3_000));
  await vi.advanceTimersByTimeAsync(1_800);
  expect(answered).toBe(0);
  await vi.advanceTimersByTimeAsync(1_000);
  expect([answered, send.mock.calls[0]![1]!.signal!.aborted]).toEqual([2, true]);
  await vi.advanceTimersByTimeAsync(1_800);
  expect([answered, onLapsed.mock.calls.length]).toEqual([4, 1]);
});

test("a lease that lapsed is told once, with what brings the session back, and is renewed all the same", async () => {
  const { send, onLapsed, lease } = begin();
  const lapsed = { leaseMs: 3_000, lapsed: true, notice: "ask with resume" };
  send.mockResolvedValueOnce(lapsed).mockResolvedValueOnce(lapsed).mockResolvedValueOnce({ leaseMs: 3_000 });
  send.mockResolvedValueOnce(lapsed);
  lease.note(leased(3_000));
  await vi.advanceTimersByTimeAsync(900);
  expect(onLapsed.mock.calls).toEqual([["ask with resume"]]);
  await vi.advanceTimersByTimeAsync(1_800);
  expect(onLapsed).toHaveBeenCalledTimes(2);
  onLapsed.mockImplementation(() => lease.stop());
  send.mockResolvedValueOnce({ leaseMs: 3_000 }).mockResolvedValueOnce(lapsed);
  await vi.advanceTimersByTimeAsync(9_000);
  expect([send.mock.calls.length, onLapsed.mock.calls.length]).toEqual([6, 3]);
});

test("a lease is no longer renewed when the server reports that the session is gone", async () => {
  const { send, lease } = begin();
  const gone = new ClientError("session_archived", "gone", { status: 409, retryable: false });
  send.mockRejectedValue(gone);
  lease.note(leased(3_000));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(send).toHaveBeenCalledTimes(1);
});

test("a lease follows the length that the answer to a heartbeat tells, and not an older one that is noted again", async () => {
  const { send, lease } = begin();
  send.mockResolvedValueOnce({ leaseMs: 1_000 });
  lease.note(leased(30_000));
  await vi.advanceTimersByTimeAsync(900);
  lease.note(leased(30_000));
  expect(send).toHaveBeenCalledTimes(4);
  lease.note(leased(3_000));
  await vi.advanceTimersByTimeAsync(900);
  expect(send).toHaveBeenCalledTimes(6);
});
