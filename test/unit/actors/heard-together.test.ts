/** The table of cases of docs/use/arbitration.md on sessions that are heard together, row by row. */

import { expect, test } from "vitest";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { expectScene, hear, pictureOf, play } from "../../support/floors/floor-script.ts";
import { FloorStage } from "../../support/floors/floor-stage.ts";

const BENEATH = { when_preempted: "duck", when_blocked: "duck" };

const FIRM_PHONE = { name: "phone", priority: 90, interruptible: false };
const MUSIC = { name: "music", priority: 20 };

test.each<readonly [name: string, agents: object[], script: string, picture: string]>([
  [
    "a queued session is heard at once, and leaves the queue",
    [FIRM_PHONE, { name: "chat", priority: 10, when_blocked: "queue" }],
    "start p:phone; start c:chat; switch c:ecall",
    "A=p D=c@0",
  ],
  [
    "a silenced session is heard again at once",
    [FIRM_PHONE, MUSIC],
    "start m:music; start p:phone; switch m:ecall",
    "A=p D=m@0",
  ],
  [
    "a silenced session is heard beneath the holder, also if it silences another",
    [
      { name: "phone", priority: 90, beneath: { dialog: -6 } },
      { name: "dialog", priority: 20, interruptible: false, ...BENEATH },
      { name: "music", priority: 50 },
    ],
    "start m:music; start p:phone; start d:dialog; switch m:ecall",
    "A=p D=m@0 P=d",
  ],
  [
    "a ducked session has its own volume, even while the floor is reserved",
    [
      { name: "phone", priority: 90, beneath: { all: -14 } },
      { name: "dialog", priority: 20, ...BENEATH },
    ],
    "start p:phone; start d:dialog; end p; switch d:ecall",
    "D=d@0 R=d",
  ],
  [
    "a session that its user paused stays paused",
    [FIRM_PHONE, MUSIC],
    "start m:music; pause m; start p:phone; switch m:ecall",
    "A=p",
  ],
])("when its agent becomes critical, %s", (_, agents, script, picture) => {
  const all = [...agents, { name: "ecall", priority: 50, critical: true }];
  const floor = new FloorStage(makeCatalog(all as never, { policy: { resume_delay: "1s" } }));
  play(floor, script);
  expect(pictureOf(floor)).toBe(picture);
});

/** Scenes of the car, by what they show. */
const SCENES: Readonly<Record<string, string>> = {
  "a prompt ducks music that can be ducked, and the music returns to its volume when the prompt ends": `
    start M:music_agent
    start V:prompt_agent → M duck ducked.idle -14, V activate active.idle: granted preempted 7
    end V → V archive archived, M resume active.idle`,
  "a prompt is heard during a call that allows it, and its end does not affect the call": `
    start M:music_agent
    start C:phone_agent → M preempt paused, C activate active.idle
    start V:prompt_agent → V duck ducked.idle 0: granted beneath 12
    end V → V archive archived
    = A=C P=M`,
  "a prompt is rejected during a call that does not allow it, and nothing else changes": `
    start M:music_agent; start X:plain_phone
    start V:prompt_agent → nothing: rejected lower_priority 5`,
  "a prompt and the music are both silenced by a call at the prompt's threshold that allows neither": `
    start M:music_agent; start V:prompt_agent
    start X:plain_phone → V preempt paused, M preempt paused, X activate active.idle, V expire archived: granted preempted 7`,
  "a prompt continues ducked beneath the driver's words although it is not interruptible": `
    start M:music_agent; start V:prompt_agent
    start L:listen_agent → V duck ducked.idle -24, M duck ducked.idle -24, L activate active.idle: granted preempted 7
    end L → L archive archived, M duck ducked.idle -14, V resume active.idle`,
  "without the keys for hearing sessions together, the music is paused before the prompt and resumes after it": `
    start M:plain_music
    start V:prompt_agent → M preempt paused, V activate active.idle
    end V → V archive archived, M resume active.idle`,
  "an agent that replaces another ends the other's session, regardless of ties": `
    start M:music_agent
    start P:podcast_agent → M archive archived, P activate active.idle: granted replaced 11`,
  "a critical session pauses a holder that is not interruptible, and blocks all other sessions": `
    start M:music_agent; start N:navigation
    start E:ecall_agent → N preempt paused, E activate active.idle: granted critical 10
    start T:chat → nothing: rejected lower_priority 5
    end E → E archive archived, N resume active.idle
    = A=N P=M`,
  "a critical session that allows every other session leaves a call where it is": `
    start X:quiet_phone
    start B:chime_agent → X duck ducked.idle 0, B activate active.idle
    end B → B archive archived, X resume active.idle`,
  "a critical session starts ducked beneath one of higher priority, and takes the floor when that one ends": `
    start E:ecall_agent
    start B:chime_agent → B duck ducked.idle 0: granted beneath 12
    end E → E archive archived, B resume active.idle`,
  "a restriction pauses the music while it is on, refuses other sessions, and resumes the music when it is off": `
    start M:music_agent
    on reverse_gear → M preempt paused
    start T:chat → nothing: rejected restricted 9
    start V:prompt_agent → V activate active.idle: granted floor_free 4
    end V → V archive archived
    off reverse_gear → M resume active.idle`,
  "a restriction that ends other sessions ends every session that is heard except critical ones": `
    start M:music_agent; start V:prompt_agent
    on user_switched → V archive archived, M archive archived
    start B:chime_agent → B activate active.idle: granted floor_free 4
    end B → B archive archived
    off user_switched → nothing`,
  "a ducked session that requests the floor is rejected and stays ducked": `
    start M:music_agent; start V:prompt_agent
    activate M → nothing: rejected lower_priority 5
    = A=V D=M@-14`,
  "a ducked session takes a turn without changing its place, and can be aborted and paused like an active one": `
    start M:music_agent; start V:prompt_agent
    say M → M turn ducked.running -14
    abort M → M abort ducked.idle -14
    pause M → M pause paused
    end V → V archive archived
    =`,
  "a ducked session can be archived like an active one": `
    start M:music_agent; start V:prompt_agent
    end M → M archive archived
    = A=V`,
};

test.each(Object.entries(SCENES))("%s", (_, scene) => expectScene(carCatalog(), scene));

test("decisions say what becomes of others, and what would have been needed", () => {
  const floor = new FloorStage(carCatalog());
  play(floor, "start M:music_agent");
  expect(hear(floor, "start V:prompt_agent").decision).toMatchObject({
    say: "Music Agent goes on beneath Prompt Agent.",
    effects: [{ sessionId: "M", agentId: "music_agent", becomes: "ducked", level: -14 }],
  });
  play(floor, "end V");
  const say = "Music Agent is paused for Phone Agent.";
  expect(hear(floor, "start C:phone_agent").decision).toMatchObject({ say });
  expect(hear(floor, "start W:prompt_agent").decision).toMatchObject({ level: 0 });
  play(floor, "end W; end C");
  const effects = [{ sessionId: "M", becomes: "archived" }];
  expect(hear(floor, "start P:podcast_agent").decision).toMatchObject({ effects });
  play(floor, "on reverse_gear");
  const wouldNeed = "reverse_gear to be off, or chat in reverse's allow";
  expect(hear(floor, "start T:chat").decision).toMatchObject({ wouldNeed });
});

test("the sentence for a prompt is the music's own, if it has one", () => {
  const agents = [
    { name: "music_agent", priority: 20, when_preempted: "duck", messages: { ducked: "Quieter for {challenger}." } },
    { name: "prompt_agent", priority: 80, beneath: { all: -14 } },
  ];
  const floor = new FloorStage(makeCatalog(agents));
  play(floor, "start M:music_agent");
  expect(hear(floor, "start V:prompt_agent").decision?.say).toBe("Quieter for Prompt Agent.");
});

test("a prompt leaves the music's run unchanged: the run is not held, ended or restarted", () => {
  const floor = new FloorStage(carCatalog());
  play(floor, "start M:music_agent; say M; claim M");
  const facts = floor.factsOf(() => {
    play(floor, "start V:prompt_agent");
    floor.report("M", "run-m1", 1);
    play(floor, "end V");
  });
  expect(facts.filter(({ type }) => type === "signal" || type.startsWith("run_request."))).toEqual([]);
  expect(floor.state("M")).toBe("active.running");
});

test("a floor ducks no more sessions than max_paused allows", () => {
  const agents = [
    { name: "front", priority: 50, beneath: { all: -14 } },
    { name: "low", priority: 20, beneath: { low: 0 }, ...BENEATH },
  ];
  const floor = new FloorStage(makeCatalog(agents, { policy: { max_paused: 2 } }));
  const decisions = play(floor, "start f:front; start one:low; start two:low; start three:low");
  expect(decisions.slice(1)).toEqual(["granted beneath", "granted beneath", "rejected lower_priority"]);
  expect(pictureOf(floor)).toBe("A=f D=one@-14,two@-14");
});
