import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { pictureOf, play } from "../../support/floors/floor-script.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

/** The rules of docs/use/arbitration.md that have a letter: what happens, and who is heard afterwards. */

type Agents = readonly Record<string, unknown>[];
const A = (name: string, priority: number, more: object = {}) => ({ name, priority, ...more });
const QUEUE = { when_blocked: "queue" };
const DUCK = { when_preempted: "duck" };
const catalogOf = (agents: Agents, rest = {}) => makeCatalog([...agents], rest);
const FLAGGED = (others = "pause") => ({ restrictions: [{ name: "r", when: "r", allow: ["call"], others }] });
const DELAYED = { policy: { resume_delay: "1s" } };
const ENDS = { after_turn: "yield" };

type Row = readonly [rule: string, name: string, catalog: Catalog, script: string, picture: string, decision?: string];

const players = (more = {}) =>
  catalogOf(
    [A("call", 90), A("music", 20, { ...QUEUE, replaces: ["music", "podcast"] }), A("podcast", 20, QUEUE)],
    more,
  );
const phones = catalogOf([A("music", 20), A("phone", 90, { interruptible: false, yields_to: ["phone"] })]);
const talk = (after: object) => catalogOf([A("music", 20), A("talk", 50, after)]);
const car = carCatalog();

const ROWS: readonly Row[] = [
  [
    "R",
    "of two queued sessions that replace each other the newest stays",
    players(),
    "start c:call; start home:music; start work:music; end c",
    "A=work",
  ],
  [
    "R",
    "a session that waits ends the paused one that it replaces",
    players(),
    "start old:music; start c:call; start new:music; end c",
    "A=new",
  ],
  [
    "R",
    "a wake does not end a session that asked later",
    players(),
    "start m:music; start c:call; start p:podcast; end c",
    "A=p P=m",
  ],
  [
    "R",
    "a session that starts beneath ends the ducked one that it replaces",
    car,
    "start c:phone_agent; start one:prompt_agent; start two:prompt_agent",
    "A=c D=two@0",
  ],
  [
    "R",
    "a player chosen during a prompt replaces the ducked one when the prompt ends",
    car,
    "start m:music_agent; start v:prompt_agent; start p:podcast_agent; end v",
    "A=p",
  ],
  [
    "W",
    "a session waits under a restriction until the flag is off",
    catalogOf([A("note", 30, QUEUE)], FLAGGED()),
    "on r; start n:note; off r",
    "A=n",
    "queued restricted",
  ],
  [
    "W",
    "a session that waits already is decided again with its present priority",
    catalogOf([A("call", 60), A("car", 40, QUEUE)], {
      priority_rules: [{ name: "em", agents: ["car"], when: "em", adjust: 50 }],
    }),
    "start c:call; start w:car; on em; activate w",
    "A=w P=c",
    "granted preempted",
  ],
  [
    "W",
    "a message of a session that waits already is decided again",
    catalogOf([A("call", 60), A("car", 40, QUEUE)], {
      priority_rules: [{ name: "em", agents: ["car"], when: "em", adjust: 50 }],
    }),
    "start c:call; start w:car; on em; say w",
    "A=w P=c",
    "granted preempted",
  ],
  [
    "W",
    "play pressed in a call waits for its end",
    catalogOf([A("call", 90), A("music", 20, QUEUE)]),
    "start m:music; start c:call; pause m; resume m; end c",
    "A=m",
    "queued lower_priority",
  ],
  [
    "W",
    "a session that asked to resume comes back although its agent resumes by hand",
    catalogOf([A("call", 90), A("music", 20, { ...QUEUE, resume: "manual" })]),
    "start m:music; start c:call; resume m; end c",
    "A=m",
    "queued lower_priority",
  ],
  [
    "W",
    "a session that cannot duck yet waits, and starts beneath as soon as it can",
    catalogOf([
      A("call", 90),
      A("prompt", 80, { beneath: { all: -14 }, interruptible: false }),
      A("music", 20, { ...DUCK, when_blocked: ["duck", "queue"] }),
    ]),
    "start c:call; start m:music; start v:prompt; end c; start v:prompt",
    "A=v D=m@-14",
    "granted preempted",
  ],
  [
    "B",
    "a call that starts beneath a chime silences the music, which yields",
    car,
    "start m:music_agent; start h:chime_agent; start c:phone_agent",
    "A=h D=c@0 P=m",
    "granted beneath",
  ],
  [
    "B",
    "all does not mean the agent itself",
    catalogOf([A("a", 50, { ...DUCK, when_blocked: "duck", beneath: { all: -10 } })]),
    "start x:a; start y:a",
    "A=x",
    "rejected equal_priority",
  ],
  [
    "B",
    "an agent that names itself is heard with itself",
    catalogOf([A("a", 50, { ...DUCK, when_blocked: "duck", beneath: { a: -10 } })]),
    "start x:a; start y:a",
    "A=x D=y@-10",
    "granted beneath",
  ],
  [
    "B",
    "a session that returns beneath silences a lower one that yields",
    catalogOf(
      [A("front", 90, { beneath: { all: -5 } }), A("mid", 50, DUCK), A("low", 20, { ...DUCK, when_blocked: "duck" })],
      { restrictions: [{ name: "r", when: "r", allow: ["front", "low"] }] },
    ),
    "start m:mid; start x:front; on r; start l:low; off r",
    "A=x D=m@-5 P=l",
  ],
  [
    "Y",
    "the call that is accepted last is heard, and the first is on hold",
    phones,
    "start m:music; start c1:phone; start c2:phone",
    "A=c2 P=c1,m",
    "granted preempted",
  ],
  [
    "Y",
    "the call on hold comes back, and the music stays silent",
    phones,
    "start m:music; start c1:phone; start c2:phone; end c2",
    "A=c1 P=m",
  ],
  [
    "Y",
    "the driver swaps the calls",
    phones,
    "start c1:phone; start c2:phone; resume c1",
    "A=c1 P=c2",
    "granted preempted",
  ],
  [
    "S",
    "a waiting session whose agent is switched on a free floor comes up",
    catalogOf([A("call", 90), A("m", 20, { resume: "manual" }), A("n", 20)]),
    "start x:m; start c:call; end c; switch x:n",
    "A=x",
  ],
  ["A", "an aborted turn yields", talk(ENDS), "start m:music; start t:talk; say t; claim t; abort t", "A=m"],
  ["A", "a failed turn yields", talk(ENDS), "start m:music; start t:talk; say t; claim t; fail t", "A=m"],
  [
    "A",
    "a failed turn of an agent that archives yields",
    talk({ after_turn: "archive" }),
    "start m:music; start t:talk; say t; claim t; fail t; resume t",
    "A=t P=m",
  ],
  [
    "A",
    "a turn that is done archives",
    talk({ after_turn: "archive" }),
    "start m:music; start t:talk; say t; claim t; finish t; resume t",
    "A=m",
  ],
  [
    "A",
    "a turn that fails while its session is paused keeps it from coming back",
    catalogOf([A("call", 90), A("talk", 50, ENDS), A("music", 20)]),
    "start m:music; start t:talk; say t; claim t; start c:call; fail t; end c",
    "A=m",
  ],
  [
    "P",
    "stop archives the session for which the floor is reserved",
    catalogOf([A("call", 90), A("music", 20)], DELAYED),
    "start m:music; start c:call; end c; stop; pass 2000",
    "",
  ],
  [
    "H",
    "with others: finish the holder goes on, and no other session comes up",
    catalogOf([A("call", 90), A("caller", 50, QUEUE)], FLAGGED("finish")),
    "start one:caller; on r; start two:caller",
    "A=one Q=two",
    "queued restricted",
  ],
  [
    "H",
    "with others: finish the next one waits for the flag",
    catalogOf([A("call", 90), A("caller", 50, QUEUE)], FLAGGED("finish")),
    "start one:caller; on r; start two:caller; end one",
    "Q=two",
  ],
  [
    "H",
    "max_hold counts beneath the holder",
    catalogOf([
      A("call", 90, { beneath: { prompt: 0 } }),
      A("prompt", 80, { ...DUCK, when_blocked: "duck", max_hold: "2s" }),
    ]),
    "start c:call; start p:prompt; pass 2000",
    "A=c",
  ],
  [
    "H",
    "max_hold counts over a change from beneath the holder to the front",
    catalogOf([
      A("call", 90, { beneath: { prompt: 0 } }),
      A("prompt", 80, { ...DUCK, when_blocked: "duck", max_hold: "2s" }),
      A("music", 20),
    ]),
    "start m:music; start c:call; start p:prompt; pass 1500; end c; pass 500",
    "A=m",
  ],
  [
    "H",
    "max_hold begins anew when the session is heard again",
    catalogOf([A("prompt", 80, { max_hold: "2s" })]),
    "start p:prompt; pass 1500; pause p; resume p; pass 1500",
    "A=p",
  ],
  [
    "H",
    "a session that was silent for longer than resume_within does not come back by itself",
    catalogOf([A("call", 90), A("music", 20, { resume_within: "2s" })]),
    "start m:music; start c:call; pass 2000; end c",
    "",
  ],
  [
    "T",
    "a prompt that may not be paused is over when it is interrupted, and does not come back",
    catalogOf([A("call", 90), A("prompt", 80, { max_pause: "0ms" })]),
    "start p:prompt; start c:call; end c",
    "",
  ],
  [
    "T",
    "what is due happens before a command, although no alarm came",
    catalogOf([A("music", 20), A("talk", 50, { max_hold: "1s" }), A("note", 30)]),
    "start m:music; start t:talk; miss 5000; start n:note",
    "A=n P=m",
    "granted preempted",
  ],
  [
    "T",
    "after a switch of the agent the lengths of the new one apply",
    catalogOf([A("short", 20, { max_hold: "1s" }), A("long", 20)]),
    "start x:short; switch x:long; pass 2000",
    "A=x",
  ],
];

/** What happens when a new catalogue comes, at the floor's next command. */
const RELOADS: readonly (readonly [
  rule: string,
  name: string,
  script: string,
  before: Catalog,
  after: Catalog,
  then: string,
  picture: string,
])[] = [
  [
    "E",
    "a paused session of a disabled agent is not woken",
    "start x:app; start c:call",
    catalogOf([A("app", 30), A("call", 90)]),
    catalogOf([A("app", 30, { enabled: false }), A("call", 90)]),
    "end c",
    "P=x",
  ],
  [
    "E",
    "a queued session of a removed agent is not woken",
    "start c:call; start x:app",
    catalogOf([A("app", 30, QUEUE), A("call", 90)]),
    catalogOf([A("call", 90)]),
    "end c",
    "Q=x",
  ],
  [
    "E",
    "a ducked session of a removed agent becomes the holder",
    "start x:app; start c:call",
    catalogOf([A("app", 30, DUCK), A("call", 90, { beneath: { all: -9 } })]),
    catalogOf([A("call", 90, { beneath: { all: -9 } })]),
    "end c",
    "A=x",
  ],
  [
    "E",
    "a reservation of a removed agent's session goes to the next one",
    "start m:music; start x:app; start c:call; end c",
    catalogOf([A("music", 20), A("app", 30), A("call", 90)], DELAYED),
    catalogOf([A("music", 20), A("call", 90)], DELAYED),
    "pass 1000; pass 1000",
    "A=m P=x",
  ],
  [
    "N",
    "a restriction that appears applies while its flag is on",
    "on r; start m:music",
    catalogOf([A("music", 20)]),
    catalogOf([A("music", 20)], FLAGGED()),
    "",
    "P=m",
  ],
  [
    "N",
    "a restriction that disappears frees the floor",
    "start m:music; on r",
    catalogOf([A("music", 20)], FLAGGED()),
    catalogOf([A("music", 20)]),
    "",
    "A=m",
  ],
  [
    "N",
    "a waiting session has its new priority, and takes the front from no holder",
    "start c:call; start q:q",
    catalogOf([A("call", 60), A("q", 10, QUEUE)]),
    catalogOf([A("call", 60), A("q", 95, QUEUE)]),
    "",
    "A=c Q=q",
  ],
  [
    "N",
    "sessions that may no longer be heard together part",
    "start m:music; start p:prompt",
    catalogOf([A("music", 20, DUCK), A("prompt", 80, { beneath: { all: -14 } })]),
    catalogOf([A("music", 20, DUCK), A("prompt", 80)]),
    "",
    "A=p P=m",
  ],
  [
    "N",
    "sessions have their new numbers although a new deadline is over already",
    "start m:music; start t:talk",
    catalogOf([A("music", 20), A("talk", 50)]),
    catalogOf([A("music", 30), A("talk", 50, { idle_timeout: "0ms" })]),
    "",
    "A=m",
  ],
  [
    "N",
    "a session that becomes critical is heard at once, beneath the holder",
    "start m:music; start c:call",
    catalogOf([A("music", 20), A("call", 90)]),
    catalogOf([A("music", 20, { critical: true }), A("call", 90)]),
    "",
    "A=c D=m@0",
  ],
];
describe("rule", () => {
  test.each(ROWS)("%s: %s", (...row) => {
    const [, , catalog, script, picture, decision] = row as unknown as Row;
    const floor = new FloorStage(catalog);
    const decisions = play(floor, script);
    expect(pictureOf(floor)).toBe(picture);
    if (decision) expect(decisions).toContain(decision);
    // A floor that is restored goes on the same way.
    floor.restart();
    expect(pictureOf(floor)).toBe(picture);
  });

  test.each(RELOADS)("%s: %s", (_, __, script, before, after, then, picture) => {
    const floor = new FloorStage(before);
    play(floor, script);
    floor.catalog = after;
    floor.ask({ type: "floor.what_if", agentId: "call" });
    if (then !== "") play(floor, then);
    expect(pictureOf(floor)).toBe(picture);
    const { floor: claims } = floor.actors.context;
    for (const { sessionId, agentId, priority } of [
      claims.holder ?? [],
      claims.ducked,
      claims.paused,
      claims.queued,
    ].flat()) {
      expect(floor.view(sessionId)).toMatchObject({ priority: after.agents.get(agentId)?.priority ?? priority });
    }
  });

  test("E: the sessions of an agent that returns are eligible again, and the floor settles", () => {
    const before = catalogOf([A("app", 30), A("call", 90)]);
    const floor = new FloorStage(before);
    play(floor, "start x:app; start c:call");
    floor.catalog = catalogOf([A("call", 90)]);
    play(floor, "end c");
    floor.catalog = before;
    floor.ask({ type: "floor.what_if", agentId: "call" });
    expect(pictureOf(floor)).toBe("A=x");
  });
});

test("docs/use/arbitration.md lists exactly the rules with a letter that have cases here", () => {
  const page = readFileSync(new URL("../../../docs/use/arbitration.md", import.meta.url), "utf8");
  const listed = [...page.matchAll(/^\| ([A-Z]) \| /gm)].map(([, letter]) => letter!);
  const tested = new Set([...ROWS.map(([rule]) => rule), ...RELOADS.map(([rule]) => rule)]);
  expect(listed.toSorted()).toEqual([...tested].toSorted());
});
