import { makeCatalog } from "./catalog.ts";

/**
 * The agents of config/car.yaml with the keys that affect arbitration, without those that need a clock or another
 * program.
 */
export const CAR = [
  { name: "ecall_agent", priority: 100, critical: true, interruptible: false },
  { name: "chime_agent", priority: 95, critical: true, beneath: { all: 0 } },
  {
    name: "phone_agent",
    priority: 90,
    interruptible: false,
    yields_to: ["phone_agent"],
    when_preempted: "duck",
    when_blocked: ["duck", "queue"],
    beneath: { prompt_agent: 0, listen_agent: -6 },
  },
  {
    name: "listen_agent",
    priority: 85,
    beneath: { all: -24 },
    when_preempted: "duck",
    when_blocked: "duck",
    max_pause: "0ms",
    replaces: ["listen_agent"],
  },
  {
    name: "prompt_agent",
    priority: 80,
    interruptible: false,
    preemption_threshold: 90,
    beneath: { all: -14 },
    when_preempted: "duck",
    when_blocked: "duck",
    max_pause: "0ms",
    replaces: ["prompt_agent"],
  },
  { name: "dialog_agent", priority: 50, beneath: { music_agent: -14 }, when_blocked: "queue" },
  { name: "podcast_agent", priority: 20, when_blocked: "queue", replaces: ["podcast_agent", "music_agent"] },
  {
    name: "music_agent",
    priority: 20,
    when_preempted: "duck",
    when_blocked: ["duck", "queue"],
    replaces: ["podcast_agent", "music_agent"],
  },
];

export const RESTRICTIONS = [
  { name: "reverse", when: "reverse_gear", allow: ["phone_agent", "prompt_agent"] },
  { name: "locked", when: "user_switched", allow: [], others: "stop" },
];

/** Agents that the cases of docs/use/arbitration.md use in addition to the car's. */
const OTHERS = [
  { name: "plain_music", priority: 20 },
  { name: "plain_phone", priority: 90, interruptible: false },
  { name: "quiet_phone", priority: 90, interruptible: false, when_preempted: "duck" },
  { name: "navigation", priority: 80, interruptible: false },
  { name: "chat", priority: 10 },
];

export const carCatalog = () => makeCatalog([...CAR, ...OTHERS], { restrictions: RESTRICTIONS });
