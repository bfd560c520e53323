/** The rules of docs/use/arbitration.md that have a letter: what happens, and who is heard afterwards. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { Transition } from "../../../src/protocol/event.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { pictureOf, play } from "../../support/floors/floor-script.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

type Agents = readonly Record<string, unknown>[];
const A = (name: string, priority: number, more: object = {}) => ({ name, priority, ...more });
const QUEUE = { when_blocked: "queue" };
const DUCK = { when_preempted: "duck" };
const catalogOf = (agents: Agents, rest = {}) => makeCatalog([...agents], rest);
const FLAGGED = (others = "pause") => ({ restrictions: [{ name: "r", when: "r", allow: ["call"], others }] });
const DELAYED = { policy: { resume_delay: "1s" } };
const ENDS = { after_turn: "yield" };

const BENEATH = { ...DUCK, when_blocked: "duck" };
const EMERGENCY = { priority_rules: [{ name: "em", agents: ["car"], when: "em", adjust: 50 }] };
const AT_MOST = { ...BENEATH, max_hold: "2s" };

const CATALOGS: Readonly<Record<string, Catalog>> = {
  car: carCatalog(),
  players: catalogOf([
    A("call", 90),
    A("music", 20, { ...QUEUE, replaces: ["music", "podcast"] }),
    A("podcast", 20, QUEUE),
  ]),
  phones: catalogOf([A("music", 20), A("phone", 90, { interruptible: false, yields_to: ["phone"] })]),
  yielding: catalogOf([A("music", 20), A("talk", 50, ENDS), A("call", 90)]),
  archiving: catalogOf([A("music", 20), A("talk", 50, { after_turn: "archive" })]),
  note: catalogOf([A("note", 30, QUEUE)], FLAGGED()),
  noting: catalogOf([A("note", 30, QUEUE)], FLAGGED("stop")),
  emergency: catalogOf([A("call", 60), A("car", 40, QUEUE)], EMERGENCY),
  queue: catalogOf([A("call", 90), A("music", 20, QUEUE)]),
  manualQueue: catalogOf([A("call", 90), A("music", 20, { ...QUEUE, resume: "manual" })]),
  duckOrQueue: catalogOf([
    A("call", 90),
    A("prompt", 80, { beneath: { all: -14 }, interruptible: false }),
    A("music", 20, { ...DUCK, when_blocked: ["duck", "queue"] }),
  ]),
  queueOrDuck: catalogOf([
    A("prompt", 80, { beneath: { all: -14 } }),
    A("music", 20, { ...DUCK, when_blocked: ["queue", "duck"] }),
  ]),
  beneathAll: catalogOf([A("a", 50, { ...BENEATH, beneath: { all: -10 } })]),
  beneathItself: catalogOf([A("a", 50, { ...BENEATH, beneath: { a: -10 } })]),
  returning: catalogOf([A("front", 90, { beneath: { all: -5 } }), A("mid", 50, DUCK), A("low", 20, BENEATH)], {
    restrictions: [{ name: "r", when: "r", allow: ["front", "low"] }],
  }),
  manual: catalogOf([A("call", 90), A("m", 20, { resume: "manual" }), A("n", 20)]),
  delayed: catalogOf([A("call", 90), A("music", 20)], DELAYED),
  finishing: catalogOf([A("call", 90), A("caller", 50, QUEUE)], FLAGGED("finish")),
  cutOff: catalogOf([A("call", 90), A("fire", 95, { critical: true }), A("talk", 50), A("low", 20)], FLAGGED("finish")),
  heldBeneath: catalogOf([A("call", 90, { beneath: { prompt: 0 } }), A("prompt", 80, AT_MOST), A("music", 20)]),
  held: catalogOf([A("prompt", 80, { max_hold: "2s" })]),
  reserved: catalogOf(
    [
      A("fire", 100, { critical: true }),
      A("chime", 10, { critical: true }),
      A("call", 90, { ...QUEUE, beneath: { lane: -9 } }),
      A("nav", 80, { ...QUEUE, interruptible: false }),
      A("lane", 80, { ...BENEATH, interruptible: false }),
    ],
    DELAYED,
  ),
  patient: catalogOf([
    A("call", 90),
    A("music", 20, { ...QUEUE, queue_timeout: "3s" }),
    A("manual", 20, { ...QUEUE, queue_timeout: "3s", resume: "manual" }),
    A("short", 20, { ...QUEUE, max_pause: "6s" }),
    A("within", 20, { ...QUEUE, resume_within: "6s" }),
  ]),
  boosted: catalogOf(
    [
      A("app", 20, { ...DUCK, idle_timeout: "5s" }),
      A("listen", 85, { beneath: { all: -24 } }),
      A("mid", 50),
      A("call", 90),
      A("radio", 30, { replaces: ["song"] }),
      A("song", 20, QUEUE),
    ],
    {
      priority_rules: [
        { name: "up", when: "up", agents: ["app"], adjust: 60 },
        { name: "down", when: "down", agents: ["app"], adjust: -20 },
      ],
    },
  ),
  quiet: catalogOf([A("call", 90), A("music", 20, QUEUE), A("chime", 50, { critical: true })], {
    restrictions: [
      { name: "noon", between: "12:01-12:03", allow: ["call"] },
      { name: "weekend", days: ["fri"], between: "23:00-01:00", allow: ["call"] },
      { name: "closing", between: "05:00-05:05", allow: ["call"], others: "stop" },
      { name: "meeting", between: "12:10-12:20", when: "r", timezone: "Asia/Shanghai" },
    ],
  }),
  idle: catalogOf(
    [A("call", 90), A("dialog", 50, { ...QUEUE, idle_yields: true }), A("podcast", 20, QUEUE), A("music", 10)],
    FLAGGED("finish"),
  ),
  idleHours: catalogOf([A("dialog", 50, { idle_yields: true }), A("podcast", 20, QUEUE)], {
    restrictions: [{ name: "noon", between: "12:01-12:03", allow: ["dialog"] }],
  }),
  due: catalogOf([A("music", 20), A("talk", 50, { max_hold: "1s" }), A("note", 30)]),
  emergencyCall: catalogOf([
    A("ecall", 50, { critical: true }),
    A("radio", 80, { ...QUEUE, replaces: ["ecall"] }),
    A("alarm", 60, { critical: true, replaces: ["ecall"] }),
  ]),
  lengths: catalogOf([A("short", 20, { max_hold: "1s" }), A("long", 20)]),
};

/** Each case of a rule: the catalogue, what happens, the floor at the end, and a decision of these. */
const ROWS: Readonly<Record<string, string>> = {
  "R: of two queued sessions that replace each other the newest stays":
    "players | start c:call; start home:music; start work:music; end c | A=work",
  "R: a session that waits ends the paused one that it replaces":
    "players | start old:music; start c:call; start new:music; end c | A=new",
  "R: a wake does not end a session that asked later":
    "players | start m:music; start c:call; start p:podcast; end c | A=p P=m",
  "R: a session that starts beneath ends the ducked one that it replaces":
    "car | start c:phone_agent; start one:prompt_agent; start two:prompt_agent | A=c D=two@0",
  "R: a session that is not critical ends no critical one":
    "emergencyCall | start e:ecall; start r:radio | A=e Q=r | queued lower_priority",
  "R: a critical session may end a critical one": "emergencyCall | start e:ecall; start a:alarm | A=a",
  "R: a player chosen during a prompt replaces the ducked one when the prompt ends":
    "car | start m:music_agent; start v:prompt_agent; start p:podcast_agent; end v | A=p",
  "W: a session waits under a restriction until the flag is off":
    "note | on r; start n:note; off r | A=n | queued restricted",
  "W: a session does not wait under a restriction that would end it":
    "noting | on r; start n:note; off r | | rejected restricted",
  "W: a session that waits already is decided again with its present priority":
    "emergency | start c:call; start w:car; on em; activate w | A=w P=c | granted preempted",
  "W: a message of a session that waits already is decided again":
    "emergency | start c:call; start w:car; on em; say w | A=w P=c | granted preempted",
  "W: play pressed in a call waits for its end":
    "queue | start m:music; start c:call; pause m; resume m; end c | A=m | queued lower_priority",
  "W: a session that asked to resume comes back although its agent resumes by hand":
    "manualQueue | start m:music; start c:call; resume m; end c | A=m | queued lower_priority",
  "W: a request of a paused session waits for no longer than queue_timeout":
    "patient | start m:music; pause m; start c:call; resume m; pass 3000; end c | ",
  "W: queue_timeout runs on when a paused session asks again":
    "patient | start m:music; pause m; start c:call; resume m; pass 2000; resume m; pass 1000; end c | ",
  "W: a preempted session that asked in vain still comes back by itself":
    "patient | start m:music; start c:call; resume m; pass 3000; end c | A=m",
  "W: a preempted session that asked in vain does not come back if its agent resumes by hand":
    "patient | start m:manual; start c:call; resume m; pass 3000; end c | P=m",
  "W: a session that asks again waits anew":
    "patient | start m:music; pause m; start c:call; resume m; pass 3000; resume m; pass 2000; end c | A=m",
  "W: max_pause counts from the request":
    "patient | start m:short; pause m; start c:call; pass 4000; resume m; pass 4000; end c | A=m",
  "W: resume_within counts from the request":
    "patient | start m:within; start c:call; pass 4000; resume m; pass 4000; end c | A=m",
  "W: a session that cannot duck yet waits, and starts beneath as soon as it can":
    "duckOrQueue | start c:call; start m:music; start v:prompt; end c; start v:prompt | A=v D=m@-14 | granted preempted",
  "W: a session that waits and may start beneath starts at once":
    "queueOrDuck | start p:prompt; start m:music | A=p D=m@-14 | granted beneath",
  "B: a critical session starts beneath a critical one of its own priority":
    "reserved | start f:fire; start g:fire | A=f D=g@0 | granted beneath",
  "B: a call that starts beneath a chime silences the music, which yields":
    "car | start m:music_agent; start h:chime_agent; start c:phone_agent | A=h D=c@0 P=m | granted beneath",
  "B: all does not mean the agent itself": "beneathAll | start x:a; start y:a | A=x | rejected equal_priority",
  "B: an agent that names itself is heard with itself":
    "beneathItself | start x:a; start y:a | A=x D=y@-10 | granted beneath",
  "B: a session that returns beneath silences a lower one that yields":
    "returning | start m:mid; start x:front; on r; start l:low; off r | A=x D=m@-5 P=l",
  "Y: the call that is accepted last is heard, and the first is on hold":
    "phones | start m:music; start c1:phone; start c2:phone | A=c2 P=c1,m | granted preempted",
  "Y: the call on hold comes back, and the music stays silent":
    "phones | start m:music; start c1:phone; start c2:phone; end c2 | A=c1 P=m",
  "Y: the driver swaps the calls": "phones | start c1:phone; start c2:phone; resume c1 | A=c1 P=c2 | granted preempted",
  "S: a waiting session whose agent is switched on a free floor comes up":
    "manual | start x:m; start c:call; end c; switch x:n | A=x",
  "A: an aborted turn yields": "yielding | start m:music; start t:talk; say t; claim t; abort t | A=m",
  "A: a failed turn yields": "yielding | start m:music; start t:talk; say t; claim t; fail t | A=m",
  "A: a failed turn of an agent that archives yields":
    "archiving | start m:music; start t:talk; say t; claim t; fail t; resume t | A=t P=m",
  "A: a turn that is done archives":
    "archiving | start m:music; start t:talk; say t; claim t; finish t; resume t | A=m",
  "A: a turn that fails while its session is paused keeps it from coming back":
    "yielding | start m:music; start t:talk; say t; claim t; start c:call; fail t; end c | A=m",
  "N: a holder that asks again has the numbers of that request":
    "boosted | start a:app; on up; resume a; start m:mid | A=a | rejected lower_priority",
  "N: a holder that asks again may have less than before":
    "boosted | start a:app; on down; activate a; start s:song | A=s P=a | granted preempted",
  "N: a ducked session that is refused has the numbers of that request":
    "boosted | start a:app; start l:listen; on up; resume a; end l; start m:mid | A=a | rejected lower_priority",
  "N: a paused session that is refused has the numbers of that request":
    "boosted | start a:app; start c:call; on up; resume a; start m:mid; end c; start m2:mid | A=a | rejected lower_priority",
  "R: a holder that asks again ends what it replaces": "boosted | start r:radio; start s:song; resume r; end r | ",
  "H: idle_timeout counts from the last request": "boosted | start a:app; pass 4000; activate a; pass 4000 | A=a",
  "S: a reserved session that is not interruptible keeps its turn":
    "reserved | start n:nav; start f:fire; end f; start c:call | P=n Q=c R=n | queued not_interruptible",
  "S: a reserved session that waits for its first turn keeps it too":
    "reserved | start f:fire; start n:nav; end f; start c:call | Q=n,c R=n | queued not_interruptible",
  "S: a reserved session that is not interruptible may return beneath the challenger":
    "reserved | start n:lane; start f:fire; end f; start c:call | A=c D=n@-9 | granted floor_free",
  "S: only a critical session takes the turn of a critical one":
    "reserved | start f:fire; start h:chime; end f; start c:call | D=h@0 Q=c R=h | queued lower_priority",
  "A: with idle_yields a holder with nothing running gives way to a session that begins to wait":
    "idle | start m:music; start d:dialog; start p:podcast | A=p P=m | granted dequeued",
  "A: with idle_yields a holder gives way once its turn is over":
    "idle | start d:dialog; say d; claim d; start p:podcast; finish d | A=p",
  "A: with idle_yields a holder keeps the floor while its turn runs":
    "idle | start d:dialog; say d; claim d; start p:podcast | A=d Q=p",
  "A: with idle_yields a holder gives way to what asked while it was paused":
    "idle | start p:podcast; start d:dialog; resume p | A=p | granted resumed",
  "A: with idle_yields a holder keeps the floor from what was only preempted":
    "idle | start m:music; start d:dialog | A=d P=m",
  "A: with idle_yields a holder keeps the floor from what may not come up":
    "idle | start d:dialog; on r; start p:podcast | A=d Q=p | queued restricted",
  "A: with idle_yields a holder gives way when what waits may come up":
    "idle | start d:dialog; on r; start p:podcast; off r | A=p",
  "A: with idle_yields a holder keeps the floor during the hours in which what waits may not come up":
    "idleHours | start d:dialog; pass 61000; start p:podcast; pass 1000 | A=d Q=p | queued restricted",
  "A: with idle_yields a holder gives way when those hours end":
    "idleHours | start d:dialog; pass 61000; start p:podcast; pass 119000 | A=p",
  "P: stop archives the session for which the floor is reserved":
    "delayed | start m:music; start c:call; end c; stop; pass 2000 | ",
  "H: with others: finish the holder goes on, and no other session comes up":
    "finishing | start one:caller; on r; start two:caller | A=one Q=two | queued restricted",
  "H: with others: finish the next one waits for the flag":
    "finishing | start one:caller; on r; start two:caller; end one | Q=two",
  "H: with others: finish a session that was cut off comes back":
    "cutOff | start t:talk; on r; start f:fire; end f | A=t",
  "H: with others: finish a session that was cut off may ask again":
    "cutOff | start t:talk; on r; start c:call; resume t; end c; start f:fire; end f | A=t | rejected lower_priority",
  "H: with others: finish a session that was silent when the flag came stays silent":
    "cutOff | start l:low; start t:talk; on r; start f:fire; end f; end t | P=l",
  "H: with others: finish a session that its user paused has finished":
    "cutOff | start t:talk; on r; pause t; resume t | | rejected restricted",
  "H: with others: finish a flag that comes while a session is silent keeps it silent":
    "cutOff | start t:talk; on r; start f:fire; off r; on r; end f | P=t",
  "H: max_hold counts beneath the holder": "heldBeneath | start c:call; start p:prompt; pass 2000 | A=c",
  "H: max_hold counts over a change from beneath the holder to the front":
    "heldBeneath | start m:music; start c:call; start p:prompt; pass 1500; end c; pass 500 | A=m",
  "H: max_hold begins anew when the session is heard again":
    "held | start p:prompt; pass 1500; pause p; resume p; pass 1500 | A=p",
  "T: the hours of a restriction silence a session when they begin": "quiet | start m:music; pass 60000 | P=m",
  "T: the hours of a restriction let it come back when they end": "quiet | start m:music; pass 180000 | A=m",
  "T: a session waits for the end of the hours":
    "quiet | start c:call; pass 61000; end c; start m:music; pass 119000 | A=m | queued restricted",
  "T: hours over midnight belong to the day on which they begin":
    "quiet | pass 129600000; start m:music; pass 3600000 | A=m | queued restricted",
  "T: hours that begin end sessions with others: stop": "quiet | start m:music; pass 61200000 | ",
  "T: hours over midnight begin on their day": "quiet | pass 124200000; start m:music; pass 1800000 | P=m",
  "T: on another day the hours do not count": "quiet | start m:music; pass 39600000 | A=m",
  "T: hours with a flag need both": "quiet | on r; start m:music; pass 58260000 | P=m",
  "T: hours without their flag do not count": "quiet | start m:music; pass 58260000 | A=m",
  "T: a critical session is heard in all hours": "quiet | start h:chime; pass 60000 | A=h",
  "T: what is due happens before a command, although no alarm came":
    "due | start m:music; start t:talk; miss 5000; start n:note | A=n P=m | granted preempted",
  "T: after a switch of the agent the lengths of the new one apply":
    "lengths | start x:short; switch x:long; pass 2000 | A=x",
};

const CALL = A("call", 90);
const APP = A("app", 30);
const MUSIC = A("music", 20);
const OVER = A("call", 90, { beneath: { all: -9 } });

/** What happens when a new catalogue comes, at the floor's next command: `script | what follows | the floor`. */
const RELOADS: Readonly<Record<string, readonly [before: Catalog, after: Catalog, script: string]>> = {
  "E: a paused session of a disabled agent is not woken": [
    catalogOf([APP, CALL]),
    catalogOf([A("app", 30, { enabled: false }), CALL]),
    "start x:app; start c:call | end c | P=x",
  ],
  "E: a queued session of a removed agent is not woken": [
    catalogOf([A("app", 30, QUEUE), CALL]),
    catalogOf([CALL]),
    "start c:call; start x:app | end c | Q=x",
  ],
  "T: a removed agent's queue_timeout still limits the wait of its session": [
    catalogOf([A("app", 30, { ...QUEUE, queue_timeout: "1s" }), CALL]),
    catalogOf([CALL]),
    "start c:call; start x:app | pass 1000 | A=c",
  ],
  "E: a ducked session of a removed agent becomes the holder": [
    catalogOf([A("app", 30, DUCK), OVER]),
    catalogOf([OVER]),
    "start x:app; start c:call | end c | A=x",
  ],
  "E: a reservation of a removed agent's session goes to the next one": [
    catalogOf([MUSIC, APP, CALL], DELAYED),
    catalogOf([MUSIC, CALL], DELAYED),
    "start m:music; start x:app; start c:call; end c | pass 1000; pass 1000 | A=m P=x",
  ],
  "R: an agent that replaces another ends no session that is critical by its numbers": [
    catalogOf([A("ecall", 50, { critical: true }), A("radio", 80)]),
    catalogOf([A("ecall", 50, { enabled: false }), A("radio", 80, { replaces: ["ecall"] })]),
    "start e:ecall | start r:radio | A=e",
  ],
  "N: a restriction that appears applies while its flag is on": [
    catalogOf([MUSIC]),
    catalogOf([MUSIC], FLAGGED()),
    "on r; start m:music | | P=m",
  ],
  "N: a restriction that disappears frees the floor": [
    catalogOf([MUSIC], FLAGGED()),
    catalogOf([MUSIC]),
    "start m:music; on r | | A=m",
  ],
  "N: a waiting session has its new priority, and takes the front from no holder": [
    catalogOf([A("call", 60), A("q", 10, QUEUE)]),
    catalogOf([A("call", 60), A("q", 95, QUEUE)]),
    "start c:call; start q:q | | A=c Q=q",
  ],
  "N: sessions that may no longer be heard together part": [
    catalogOf([A("music", 20, DUCK), A("prompt", 80, { beneath: { all: -14 } })]),
    catalogOf([A("music", 20, DUCK), A("prompt", 80)]),
    "start m:music; start p:prompt | | A=p P=m",
  ],
  "N: sessions have their new numbers although a new deadline is over already": [
    catalogOf([MUSIC, A("talk", 50)]),
    catalogOf([A("music", 30), A("talk", 50, { idle_timeout: "0ms" })]),
    "start m:music; start t:talk | | A=m",
  ],
  "N: a session that becomes critical is heard at once, beneath the holder": [
    catalogOf([MUSIC, CALL]),
    catalogOf([A("music", 20, { critical: true }), CALL]),
    "start m:music; start c:call | | A=c D=m@0",
  ],
};

const partsOf = (row: string) => row.split("|").map((part) => part.trim());

test.each(Object.entries(ROWS))("rule %s", (_, row) => {
  const [catalog = "", script = "", picture, decision] = partsOf(row);
  const floor = new FloorStage(CATALOGS[catalog]!);
  const decisions = play(floor, script);
  expect(pictureOf(floor)).toBe(picture);
  if (decision) expect(decisions).toContain(decision);
  // A floor that is restored goes on the same way.
  floor.restart();
  expect(pictureOf(floor)).toBe(picture);
});

test.each(Object.entries(RELOADS))("rule %s", (_, [before, after, row]) => {
  const [script = "", then, picture] = partsOf(row);
  const floor = new FloorStage(before);
  play(floor, script);
  floor.catalog = after;
  floor.ask({ type: "floor.what_if", agentId: "call" });
  if (then) play(floor, then);
  expect(pictureOf(floor)).toBe(picture);
  const { holder = [], ducked, paused, queued } = floor.actors.context.floor;
  for (const { sessionId, agentId, priority } of [holder, ducked, paused, queued].flat()) {
    expect(floor.view(sessionId)).toMatchObject({ priority: after.agents.get(agentId)?.priority ?? priority });
  }
});

test.each([
  ["by itself", "start m:mid; start x:front; on r; start l:low; off r"],
  ["beneath one that asks, and that lets it be heard", "start m:mid; on r; start l:low; off r; start x:front"],
  [
    "beneath one that comes up then, and that lets it be heard",
    "start m:mid; start x:front; start c:call; start l:low; end c",
  ],
])("rule B: a session that comes back %s is named as the cause of the silence that this makes", (_, script) => {
  const agents = [
    A("call", 95, { beneath: { front: 0, low: 0 } }),
    A("front", 90, { ...DUCK, beneath: { all: -5 } }),
    A("mid", 50, DUCK),
    A("low", 20, BENEATH),
  ];
  const restrictions = [{ name: "r", when: "r", allow: ["front", "low"] }];
  const floor = new FloorStage(catalogOf(agents, { restrictions }));
  play(floor, script);
  expect(pictureOf(floor)).toBe("A=x D=m@-5 P=l");
  const silences = floor.facts.flatMap((fact) =>
    fact.type === "event" && fact.event.type === "session_transition" && fact.event.sessionId === "l"
      ? (fact.event.data as Transition)
      : [],
  );
  expect(silences.at(-1)).toMatchObject({ event: "preempt", by: { sessionId: "m", agentId: "mid" } });
});

test("rule E: the sessions of an agent that returns are eligible again, and the floor settles", () => {
  const before = catalogOf([APP, CALL]);
  const floor = new FloorStage(before);
  play(floor, "start x:app; start c:call");
  floor.catalog = catalogOf([CALL]);
  play(floor, "end c");
  floor.catalog = before;
  floor.ask({ type: "floor.what_if", agentId: "call" });
  expect(pictureOf(floor)).toBe("A=x");
});

test("docs/use/arbitration.md lists exactly the rules with a letter that have cases here", () => {
  const page = readFileSync(new URL("../../../docs/use/arbitration.md", import.meta.url), "utf8");
  const listed = [...page.matchAll(/^\| ([A-Z]) \| /gm)].map(([, letter]) => letter!);
  const tested = new Set([...Object.keys(ROWS), ...Object.keys(RELOADS)].map(([rule]) => rule!));
  expect(listed.toSorted()).toEqual([...tested].toSorted());
});
