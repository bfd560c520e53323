import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { type PlayedEvent, PlayedLog } from "../../../src/policy/played-log.ts";
import { type ReplayedFloor, replayFloor } from "../../../src/policy/replay/replay.ts";
import { type Difference, type ReplayReport, ReplaySummary } from "../../../src/policy/replay/replay-report.ts";
import { readScript } from "../../../src/policy/script.ts";
import { play } from "../../../src/policy/simulation.ts";
import type { TimedFact } from "../../../src/policy/stepped-floor.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import {
  beginHistory,
  catalogOf,
  commandOf,
  type Reload,
  reload,
  type Step,
  step,
  type World,
  world,
} from "../../support/floors/floor-histories.ts";
import type { FloorStage } from "../../support/floors/floor-stage.ts";

const REFUSED_LAST_MS = 30_000;

const logOf = (text: string, catalog: Catalog): readonly PlayedEvent[] => {
  const read = readScript(text);
  if (!read.ok) throw new Error(JSON.stringify(read.faults));
  return play(read, { catalog }).events;
};

function replayed(events: readonly PlayedEvent[], catalog: Catalog): ReplayedFloor {
  return replayFloor("u:driver", events, { catalog, refusedLastMs: REFUSED_LAST_MS });
}

function reportOf(...floors: ReplayedFloor[]): ReplayReport {
  const summary = new ReplaySummary();
  for (const floor of floors) summary.add(floor);
  return summary.report();
}

const kindsOf = ({ kinds }: ReplayReport) =>
  kinds.map(({ agentId, before, after, count }) => `${count} ${agentId}: ${before} → ${after}`);

const PHONE = { name: "phone", priority: 90 };
const MUSIC = { name: "music", priority: 20 };

describe("a log with another catalogue", () => {
  const log = logOf(
    `steps:
      - { at: "08:00", asks: guide }
      - { after: 10s, asks: phone }
      - { after: 50s, ends: guide }
      - { after: 10s, asks: phone, for: 20s }
      - { after: 60s, says: chat, for: 5s }
      - { after: 60s }`,
    makeCatalog([PHONE, { name: "guide", priority: 80, interruptible: false }, { name: "chat", priority: 10 }]),
  );

  test("a request that was refused and is granted now is told once for each kind, with when it was first", () => {
    const now = makeCatalog([PHONE, { name: "guide", priority: 80 }, { name: "chat", priority: 10 }]);
    const report = reportOf(replayed(log, now), replayed(log, now));
    expect(kindsOf(report)).toEqual([
      "2 phone: rejected (not_interruptible) → granted (preempted)",
      "2 guide: stays as it is → paused for phone",
    ]);
    expect(new Date(report.kinds[0]!.first.at).toISOString()).toBe("2026-01-05T08:00:10.000Z");
    expect([report.floors, report.requests]).toEqual([2, 8]);
  });

  test("counts of each agent are before and now; a refused session is heard for as long as was chosen", () => {
    const now = makeCatalog([PHONE, { name: "guide", priority: 80 }, { name: "chat", priority: 10 }]);
    const [chat, guide, phone] = reportOf(replayed(log, now)).agents;
    expect([chat!.before, chat!.after].map(({ frontMs }) => frontMs)).toEqual([5_000, 5_000]);
    expect(guide!.before).toMatchObject({ requests: 1, granted: 1, frontMs: 60_000, silentMs: 0 });
    expect(guide!.after).toMatchObject({
      frontMs: 30_000,
      silentMs: REFUSED_LAST_MS,
      longestSilenceMs: REFUSED_LAST_MS,
    });
    expect(phone!.before).toMatchObject({ rejected: 1, refusedBy: { not_interruptible: 1 }, frontMs: 20_000 });
    expect(phone!.after).toMatchObject({ rejected: 0, refusedBy: {}, frontMs: 20_000 + REFUSED_LAST_MS });
  });

  test("an agent that the catalogue lacks is named, and so is what could not be asked any more", () => {
    const now = makeCatalog([PHONE, { name: "chat", priority: 10 }]);
    const report = reportOf(replayed(log, now));
    expect(kindsOf(report)).toContain("1 guide: granted (floor_free) → agent_not_found");
    expect(kindsOf(report)).toContain("1 phone: rejected (not_interruptible) → granted (floor_free)");
  });

  test("a turn that is held goes on later, and ends as much later", () => {
    const catalogWith = (when_preempted: string) =>
      makeCatalog([
        { ...PHONE, beneath: { music: -14 } },
        { ...MUSIC, when_preempted, after_turn: "archive", adapter: { kind: "scripted", yields: "hold" } },
      ]);
    const script = `steps:
      - { at: "08:00", says: music, for: 60s }
      - { after: 20s, asks: phone, for: 30s }
      - { after: 5m, asks: phone, for: 1s }`;
    const ducked = logOf(script, catalogWith("duck"));
    const report = reportOf(replayed(ducked, catalogWith("pause")));
    expect(kindsOf(report)).toEqual(["1 music: ducked -14 dB for phone → paused for phone"]);
    const [music] = report.agents;
    expect(music!.before).toMatchObject({ frontMs: 30_000, beneathMs: 30_000, silentMs: 0 });
    expect(music!.after).toMatchObject({ frontMs: 60_000, beneathMs: 0, silentMs: 30_000 });
  });

  test("sessions that are older than the log take part; one whose agent no event names is counted", () => {
    const catalog = makeCatalog([PHONE, MUSIC]);
    const whole = logOf(
      `steps:
        - { at: "08:00", asks: music }
        - { after: 10s, asks: phone, for: 20s }
        - { after: 60s, ends: music }`,
      catalog,
    );
    const later = whole.filter(({ timestamp }) => timestamp > "2026-01-05T08:00:05");
    const same = replayed(later, catalog);
    expect(same.older.before).toEqual([{ sessionId: "music", agentId: "music", state: "active.idle" }]);
    expect(kindsOf(reportOf(same))).toEqual([]);
    expect(reportOf(same).agents[0]!.after).toEqual(reportOf(same).agents[0]!.before);
    const nameless = whole.filter((event) => event.sessionId === "music").slice(-1);
    expect(replayed(nameless, catalog).unknown).toEqual(["music"]);
  });
});

/** Play a history, and log it as a node does. */
function logHistory(setting: World, steps: readonly (Step | Reload)[]) {
  const history = beginHistory(setting);
  const { floor } = history;
  const log = new PlayedLog();
  const catalogs = new Map<string, Catalog>();
  const use = (catalog: Catalog) => {
    floor.catalog = { ...catalog, hash: `catalogue-${catalogs.size}` };
    catalogs.set(floor.catalog.hash, floor.catalog);
  };
  use(floor.catalog);
  let first = floor.catalog;
  logInto(floor, log);
  for (const each of steps) {
    floor.pass(1_000);
    if (each.do === "pass") floor.pass(each.ms);
    else if (each.do === "restart") floor.restart();
    else if (each.do === "reload") {
      use(catalogOf(each));
      if (log.events.length === 0) first = floor.catalog;
      floor.deliver({ type: "alarm" });
    } else {
      const command = commandOf(each, history);
      if (command) floor.deliver(command);
    }
  }
  return { events: log.events, first, catalogs };
}

function logInto(floor: FloorStage, log: PlayedLog): void {
  const deliver = floor.deliver.bind(floor);
  floor.deliver = (command) => {
    const result = deliver(command);
    let at = floor.now;
    const dated: TimedFact[] = [];
    for (const fact of result.facts) {
      if (fact.type === "at") at = fact.now;
      else dated.push({ at, fact });
    }
    log.add(dated);
    return result;
  };
}

describe("a log with its own catalogues", () => {
  let requests = 0;
  const replay = (setting: World, steps: readonly (Step | Reload)[]): Difference[] => {
    const { events, first, catalogs } = logHistory(setting, steps);
    if (events.length === 0) return [];
    const again = replayFloor("u:ann", events, { catalog: first, former: catalogs, refusedLastMs: REFUSED_LAST_MS });
    requests += again.requests.length;
    return new ReplaySummary().add(again).differences;
  };
  // A worker says `stopped` only after the floor has stopped its run, whose questions are over then.
  const isSaid = (each: Step) => each.do !== "report" || each.part !== "ask" || each.outcome !== "stopped";
  const punctual = step.filter((each) => each.do !== "away" && isSaid(each));
  const { FLOOR_SEED = 1, FLOOR_HISTORIES = 150 } = process.env;
  const options = { seed: Number(FLOOR_SEED), numRuns: Number(FLOOR_HISTORIES) };

  test("nothing is otherwise, whatever was done, also over restarts", () => {
    const steps = fc.array(punctual, { minLength: 5, maxLength: 60, size: "max" });
    fc.assert(
      fc.property(world, steps, (setting, history) => {
        expect(replay(setting, history)).toEqual([]);
      }),
      options,
    );
    expect(requests).toBeGreaterThan(options.numRuns);
  });

  test("with catalogues that come while it is written, the one that the log names decides", () => {
    const steps = fc.array(fc.oneof({ weight: 20, arbitrary: punctual }, { weight: 1, arbitrary: reload }), {
      minLength: 5,
      maxLength: 40,
      size: "max",
    });
    fc.assert(
      fc.property(world, steps, (setting, history) => {
        expect(replay(setting, history)).toEqual([]);
      }),
      options,
    );
  });

  test("a holder that asked again before its agent had an idle_timeout is idle since its turn before, in the log and again", () => {
    const [setting] = fc.sample(world, { seed: 1, numRuns: 1 }) as [World];
    const worldWith = (idle_timeout: string | undefined): World => {
      const agents = setting.agents.map((agent) => ({ ...agent, lease: undefined, idle_timeout }));
      return { ...setting, agents: agents as unknown as World["agents"], restrictions: [] };
    };
    const asks = { do: "verb", sessionId: "s1", verb: "activate" } as Step;
    const steps: (Step | Reload)[] = [
      { do: "create", sessionId: "s1", agentId: "a", activate: true } as Step,
      { do: "pass", ms: 6_000 } as Step,
      asks,
      { do: "reload", world: worldWith("15s"), disabled: [], gone: 0 } as unknown as Reload,
      { do: "pass", ms: 6_000 } as Step,
      asks,
    ];
    expect(replay(worldWith(undefined), steps)).toEqual([]);
  });

  test("a program that died is dead again: its session lapses when it did, and later with a longer lease", () => {
    const catalog = makeCatalog([PHONE, { ...MUSIC, lease: "20s", adapter: { kind: "external" } }]);
    const log = logOf(
      `steps:
        - { at: "08:00", asks: music }
        - { after: 70s, dies: music }
        - { after: 5m, returns: music }
        - { resumes: music }
        - { after: 10s, asks: phone, for: 20s }
        - { after: 60s, ends: music }`,
      catalog,
    );
    const lapseOf = (events: readonly PlayedEvent[]) => {
      const lapse = events.find(
        (event) => event.type === "session_transition" && event.data.reason === "lease_expired",
      );
      return Date.parse(lapse!.timestamp);
    };
    const again = replayed(log, catalog);
    expect(lapseOf(again.after as PlayedEvent[])).toBe(lapseOf(log));
    const longer = makeCatalog([PHONE, { ...MUSIC, lease: "40s", adapter: { kind: "external" } }]);
    const former = new Map([[catalog.hash, catalog]]);
    const later = replayFloor("u:driver", log, { catalog: longer, former, refusedLastMs: REFUSED_LAST_MS });
    expect(lapseOf(later.after as PlayedEvent[])).toBeGreaterThan(lapseOf(log));
    expect(again.requests.map(({ before, after }) => [before.reason, after?.reason])).toEqual([
      ["floor_free", "floor_free"],
      ["floor_free", "floor_free"],
      ["preempted", "preempted"],
    ]);
  });

  test("what is due in the moment in which a session lapses comes in the same order again", () => {
    const adapter = { kind: "external" };
    const catalog = makeCatalog([
      { ...PHONE, max_hold: "20s", adapter },
      { ...MUSIC, lease: "20s", adapter },
    ]);
    const log = logOf(
      `steps:
        - { at: "08:00", asks: music }
        - { after: 70s, dies: music }
        - { after: 10s, asks: phone }
        - { after: 5m, ends: phone }`,
      catalog,
    );
    const [lapse, end] = ["lease_expired", "max_hold"].map((reason) =>
      log.find((event) => event.type === "session_transition" && event.data.reason === reason),
    );
    expect(lapse!.timestamp).toBe(end!.timestamp);
    expect(kindsOf(reportOf(replayed(log, catalog)))).toEqual([]);
  });
});
