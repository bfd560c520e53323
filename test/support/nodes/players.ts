/** External agents with leases short enough for tests. */
const external = { adapter: { kind: "external" } };

export const PLAYERS = [
  {
    name: "prompt",
    priority: 80,
    interruptible: false,
    beneath: { all: -14 },
    when_preempted: "duck",
    lease: "2s",
    ...external,
  },
  { name: "music", priority: 20, when_preempted: "duck", lease: "2s", ...external },
  { name: "slow_music", priority: 20, when_preempted: "duck", lease: "1h", ...external },
  { name: "unleased", priority: 30, ...external },
  { name: "chat", priority: 50, lease: "1h" },
  { name: "general", priority: 40 },
];
