import { expect, it } from "vitest";
import { type Paint, paintFor } from "../../../src/cli/paint.ts";
import { widthOf } from "../../../src/cli/text-width.ts";
import { drawLegend, drawTimeline, readTimeline } from "../../../src/cli/timeline.ts";
import { parseServerEvent, type ServerEvent } from "../../../src/client/server-event.ts";

const PRIORITIES: Record<string, number> = { music: 20, phone: 90, chat: 10, weather: 30, nav: 80 };
const NAMES: Record<string, string> = { music: "音乐", phone: "Phone", chat: "Small talk" };
const nameOf = (agentId: string) => NAMES[agentId] ?? agentId;

/** The events of a floor; a session has its agent's name. */
class History {
  readonly events: ServerEvent[] = [];

  created(atMs: number, agentId: string): this {
    return this.#add(atMs, "session_created", { agentId, priority: PRIORITIES[agentId] }, agentId);
  }

  became(atMs: number, agentId: string, to: string): this {
    return this.#add(atMs, "session_transition", { from: "created", to, event: "activate" }, agentId);
  }

  decided(atMs: number, agentId: string, outcome: string, sessionId?: string): this {
    const challenger = { agentId, priority: PRIORITIES[agentId], explained: [] };
    return this.#add(atMs, "arbitration", { outcome, reason: "lower_priority", challenger, say: "" }, sessionId);
  }

  #add(atMs: number, type: string, data: object, sessionId?: string): this {
    const timestamp = new Date(Date.UTC(2026, 0, 1) + atMs).toISOString();
    this.events.push(parseServerEvent(JSON.stringify({ type, data, timestamp, sessionId }))!);
    return this;
  }

  draw(width = 60, paint?: Paint): string[] {
    return drawTimeline(readTimeline(this.events), { width, nameOf, ...(paint && { paint }) });
  }
}

const call = () =>
  new History()
    .created(0, "music")
    .became(0, "music", "active.idle")
    .became(20, "music", "active.running")
    .created(1_000, "phone")
    .became(1_000, "music", "paused")
    .became(1_000, "phone", "active.idle")
    .became(2_000, "phone", "archived")
    .became(2_000, "music", "active.running")
    .became(3_000, "music", "archived");

it("a session is drawn as spans, at the times of its events", () => {
  const { durationMs, rows } = readTimeline(call().events);
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
  expect(call().draw()).toEqual([
    "音乐 20   ██████████░░░░░░░░░░██████████",
    "Phone 90            ██████████",
    "          |         |         |         |",
    "          0         1         2         3 s",
  ]);
});

it("a queued session is marked until its turn, and an open span lasts to the end", () => {
  const history = new History()
    .created(0, "phone")
    .became(0, "phone", "active.idle")
    .created(500, "chat")
    .decided(500, "chat", "queued", "chat")
    .became(1_500, "phone", "archived")
    .decided(1_500, "chat", "granted", "chat")
    .became(1_500, "chat", "active.idle")
    .became(2_000, "chat", "active.running");
  expect(history.draw().slice(0, 2)).toEqual([
    "Phone 90       ██████████████████████████████",
    "Small talk 10            ····················██████████",
  ]);
});

it("a wait that times out ends with a refusal", () => {
  const history = new History()
    .created(0, "chat")
    .decided(0, "chat", "queued", "chat")
    .decided(1_000, "chat", "rejected", "chat")
    .became(2_000, "chat", "archived");
  expect(history.draw()[0]).toBe("Small talk 10  ····················✗");
});

it("a refusal is shown even without a session, and a session created later continues in its row", () => {
  const history = new History()
    .created(0, "nav")
    .became(0, "nav", "active.idle")
    .decided(500, "chat", "rejected")
    .decided(700, "chat", "rejected")
    .became(1_000, "nav", "archived")
    .created(1_000, "chat")
    .became(1_000, "chat", "active.idle")
    .became(1_500, "chat", "paused");
  expect(history.draw().slice(0, 2)).toEqual([
    "nav 80         ████████████████████",
    "Small talk 10            ✗   ✗     ██████████",
  ]);
});

it("a span shorter than a column is still shown", () => {
  const history = new History()
    .created(0, "music")
    .became(0, "music", "active.idle")
    .became(1_010, "music", "paused")
    .created(1_010, "weather")
    .became(1_010, "weather", "active.idle")
    .became(1_020, "weather", "archived")
    .became(1_020, "music", "active.idle")
    .became(3_000, "music", "archived");
  const [music, weather] = history.draw();
  expect(music).toContain("░");
  expect(weather?.trimEnd().at(-1)).toBe("█");
});

it("where several short spans share a column, what was heard shows", () => {
  const history = new History()
    .created(0, "music")
    .became(0, "music", "active.idle")
    .became(990, "music", "archived")
    .created(1_010, "weather")
    .became(1_010, "weather", "active.idle")
    .became(1_015, "weather", "paused")
    .became(1_020, "weather", "archived");
  expect(history.draw()[1]?.trimEnd().at(-1)).toBe("█");
});

it("a longer timeline has longer columns, and no line exceeds the width", () => {
  for (const durationMs of [0, 40, 700, 4_200, 61_000, 7_200_000]) {
    const history = new History()
      .created(0, "music")
      .became(0, "music", "active.idle")
      .became(durationMs, "music", "archived");
    const lines = history.draw(80);
    for (const line of lines) expect(widthOf(line), `${durationMs}: ${line}`).toBeLessThanOrEqual(80);
    expect(lines.at(-1), `${durationMs}`).toMatch(/\d s$/);
  }
});

it("an empty log gives an empty chart", () => {
  expect(readTimeline([])).toEqual({ durationMs: 0, rows: [] });
  expect(drawTimeline(readTimeline([]), { width: 40, nameOf })).toHaveLength(2);
});

it("colours are used only on terminals whose user did not disable them", () => {
  const [bare] = call().draw();
  expect(call().draw(60, paintFor({}, {}))[0]).toBe(bare);
  expect(call().draw(60, paintFor({ isTTY: true }, { NO_COLOR: "1" }))[0]).toBe(bare);
  const [music] = call().draw(60, paintFor({ isTTY: true }, { NO_COLOR: "" }));
  expect(music).toBe(
    "音乐 20   \u001b[32m██████████\u001b[39m\u001b[33m░░░░░░░░░░\u001b[39m\u001b[32m██████████\u001b[39m",
  );
  expect(drawLegend()).toBe("█ active   ▒ ducked   ░ paused   · waiting   ✗ refused");
});

it("a session that is heard beneath another has its own symbol", () => {
  const lines = new History()
    .created(0, "music")
    .became(0, "music", "active.idle")
    .became(10_000, "music", "ducked.running")
    .became(20_000, "music", "active.idle")
    .became(30_000, "music", "archived")
    .draw(46);
  expect(lines[0]).toMatch(/^音乐 20 +█+▒+█+$/);
});
