import { expect, it } from "vitest";
import { type Paint, paintFor, withTerminalCodes } from "../../../src/cli/paint.ts";
import { widthOf } from "../../../src/cli/text-width.ts";
import { drawLegend, drawTimeline, readTimeline } from "../../../src/cli/timeline.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";

const PRIORITIES: Record<string, number> = { music: 20, phone: 90, chat: 10, weather: 30, nav: 80 };
const NAMES: Record<string, string> = { music: "音乐", phone: "Phone", chat: "Small talk" };
const nameOf = (agentId: string) => NAMES[agentId] ?? agentId;

/**
 * The events of a floor. A session has its agent's name, and what happened to it as `<what> <ms>, …`: it is `created`,
 * is `queued`, `granted` or `rejected`, or enters a state. `refused` is a rejection without a session, `timeout` ends a
 * wait.
 */
function history(told: Record<string, string>): ServerEvent[] {
  const events = Object.entries(told).flatMap(([agentId, steps]) =>
    steps.split(", ").map((step) => {
      const [what, at] = step.split(" ") as [string, string];
      const priority = PRIORITIES[agentId];
      const of = (type: string, data: object, sessionId?: string) => ({ at: Number(at), type, data, sessionId });
      if (what === "created") return of("session_created", { agentId, priority }, agentId);
      if (!DECIDED.has(what)) {
        return of("session_transition", { from: "created", to: what, event: "activate" }, agentId);
      }
      const challenger = { agentId, priority, explained: [] };
      const outcome = what === "refused" || what === "timeout" ? "rejected" : what;
      const reason = what === "timeout" ? "queue_timeout" : "lower_priority";
      const data = { outcome, reason, challenger, say: "" };
      return of("arbitration", data, what === "refused" ? undefined : agentId);
    }),
  );
  return events
    .toSorted((one, other) => one.at - other.at)
    .map(({ at, ...event }) => {
      const timestamp = new Date(Date.UTC(2026, 0, 1) + at).toISOString();
      return parseServerEvent(JSON.stringify({ ...event, timestamp }))!;
    });
}

const DECIDED = new Set(["queued", "granted", "rejected", "refused", "timeout"]);

const draw = (events: ServerEvent[], width = 60, paint?: Paint) =>
  drawTimeline(readTimeline(events), { width, nameOf, ...(paint && { paint }) });

const CALL = history({
  music: "created 0, active.idle 0, active.running 20, paused 1000, active.running 2000, archived 3000",
  phone: "created 1000, active.idle 1000, archived 2000",
});

it("a session is drawn as spans, at the times of its events", () => {
  const { durationMs, rows } = readTimeline(CALL);
  expect(durationMs).toBe(3_000);
  expect(rows).toEqual([
    {
      agentId: "music",
      sessionId: "music",
      priority: 20,
      refusedAtMs: [],
      spans: [
        { state: "active", fromMs: 0, toMs: 1_000 },
        { state: "paused", fromMs: 1_000, toMs: 2_000 },
        { state: "active", fromMs: 2_000, toMs: 3_000 },
      ],
    },
    {
      agentId: "phone",
      sessionId: "phone",
      priority: 90,
      refusedAtMs: [],
      spans: [{ state: "active", fromMs: 1_000, toMs: 2_000 }],
    },
  ]);
});

it("active and paused sessions and the seconds are aligned, in Chinese too", () => {
  expect(draw(CALL)).toEqual([
    "音乐 20   ██████████░░░░░░░░░░██████████",
    "Phone 90            ██████████",
    "          |         |         |         |",
    "          0         1         2         3 s",
  ]);
});

it("a queued session is marked until its turn, and an open span lasts to the end", () => {
  const chat = "created 500, queued 500, granted 1500, active.idle 1500, active.running 2000";
  const events = history({ phone: "created 0, active.idle 0, archived 1500", chat });
  expect(draw(events).slice(0, 2)).toEqual([
    "Phone 90       ██████████████████████████████",
    "Small talk 10            ····················██████████",
  ]);
});

it("a wait that times out ends with a refusal", () => {
  const events = history({ chat: "created 0, queued 0, timeout 1000, archived 2000" });
  expect(draw(events)[0]).toBe("Small talk 10  ····················✗");
});

it("at the end of a play that goes on after its last event, sessions have their last state, and wait on", () => {
  const events = history({
    phone: "created 0, active.idle 0",
    music: "created 0, queued 0",
    chat: "created 0, queued 0, timeout 500",
  });
  const { rows } = readTimeline(events, Date.parse(events[0]!.timestamp) + 2_000);
  expect(rows.map(({ spans }) => spans.at(-1))).toEqual([
    { state: "active", fromMs: 0, toMs: 2_000 },
    { state: "waiting", fromMs: 0, toMs: 2_000 },
    { state: "waiting", fromMs: 0, toMs: 500 },
  ]);
});

it("a waiting session whose other request is refused waits on, and a paused one is paused again when its wait ends", () => {
  const chat =
    "created 0, queued 0, rejected 500, active.idle 1000, paused 1500, queued 2000, timeout 2500, archived 3000";
  expect(draw(history({ chat }), 46)[0]).toBe("Small talk 10  ·····✗····█████░░░░░·····✗░░░░");
});

it("a session has one row after it has switched its agent, and one also if its beginning is no longer in the log", () => {
  const log = history({
    music: "created 0, active.idle 0, paused 1000",
    chat: "queued 1000, active.idle 2000, archived 3000",
  });
  const at = new Date(Date.UTC(2026, 0, 1) + 1_000).toISOString();
  const data = { previousAgentId: "music", currentAgentId: "nav", agentName: "nav" };
  const switched = parseServerEvent(
    JSON.stringify({ type: "agent_switched", sessionId: "music", timestamp: at, data }),
  )!;
  const asked = history({ nav: "queued 1000" }).map((event) => ({ ...event, sessionId: "music" }));
  const events = [...log.slice(0, 3), switched, ...asked, ...log.slice(3)] as ServerEvent[];
  expect(draw(events).slice(0, -2)).toEqual([
    "nav 80         ██████████····················",
    "Small talk 10            ··········██████████",
  ]);
  const late = history({ weather: "active.idle 0, archived 1000" });
  expect(draw(late)[0]).toMatch(/^weather.* █+$/);
});

it("a refusal is shown even without a session, and a session created later continues in its row", () => {
  const chat = "refused 500, refused 700, created 1000, active.idle 1000, paused 1500";
  const events = history({ nav: "created 0, active.idle 0, archived 1000", chat });
  expect(draw(events).slice(0, 2)).toEqual([
    "nav 80         ████████████████████",
    "Small talk 10            ✗   ✗     ██████████",
  ]);
});

it("a span shorter than a column is still shown", () => {
  const weather = "created 1010, active.idle 1010, archived 1020";
  const music = "created 0, active.idle 0, paused 1010, active.idle 1020, archived 3000";
  const [first, second] = draw(history({ music, weather }));
  expect(first).toContain("░");
  expect(second?.trimEnd().at(-1)).toBe("█");
});

it("where several short spans share a column, what was heard shows", () => {
  const weather = "created 1010, active.idle 1010, paused 1015, archived 1020";
  const lines = draw(history({ music: "created 0, active.idle 0, archived 990", weather }));
  expect(lines[1]?.trimEnd().at(-1)).toBe("█");
});

it("a longer timeline has longer columns, and no line exceeds the width", () => {
  for (const durationMs of [0, 40, 700, 4_200, 61_000, 7_200_000]) {
    const lines = draw(history({ music: `created 0, active.idle 0, archived ${durationMs}` }), 80);
    for (const line of lines) expect(widthOf(line), `${durationMs}: ${line}`).toBeLessThanOrEqual(80);
    expect(lines.at(-1), `${durationMs}`).toMatch(/\d s$/);
  }
});

it("an empty log gives an empty chart", () => {
  expect(readTimeline([])).toEqual({ durationMs: 0, rows: [] });
  expect(drawTimeline(readTimeline([]), { width: 40, nameOf })).toHaveLength(2);
});

it("colours are used only on terminals whose user did not disable them", () => {
  const [bare] = draw(CALL);
  expect(draw(CALL, 60, paintFor({}, {}))[0]).toBe(bare);
  expect(draw(CALL, 60, paintFor({ isTTY: true }, { NO_COLOR: "1" }))[0]).toBe(bare);
  const [music] = draw(CALL, 60, paintFor({ isTTY: true }, { NO_COLOR: "" }));
  expect(withTerminalCodes(music!)).toBe(
    "音乐 20   \u001b[32m██████████\u001b[39m\u001b[33m░░░░░░░░░░\u001b[39m\u001b[32m██████████\u001b[39m",
  );
  expect(drawLegend()).toBe("█ active   ▒ ducked   ░ paused   · waiting   ✗ refused");
});

it("a session that is heard beneath another has its own symbol", () => {
  const music = "created 0, active.idle 0, ducked.running 10000, active.idle 20000, archived 30000";
  expect(draw(history({ music }), 46)[0]).toMatch(/^音乐 20 +█+▒+█+$/);
});
