import { benchCommands } from "./commands.ts";
import { benchFanout } from "./fanout.ts";
import { benchGrowth } from "./growth.ts";
import { benchHeard } from "./heard.ts";
import { benchIdle } from "./idle.ts";
import { benchMqtt } from "./mqtt.ts";
import { benchPage } from "./page.ts";
import { benchPlayers } from "./players.ts";
import { benchPolicy } from "./policy.ts";
import { benchReaction } from "./reaction.ts";
import { benchReplies } from "./replies.ts";
import { benchRouting } from "./routing.ts";
import { benchScaled } from "./scaled.ts";
import { benchStartup } from "./startup.ts";
import { benchStorage } from "./storage.ts";
import { printTable } from "./support/table.ts";

/**
 * The benchmarks. Each figure is compared with a reference that is measured in the same run. `npm run bench [--
 * commands fanout …]`
 */
const BENCHES = {
  commands: benchCommands,
  growth: benchGrowth,
  fanout: benchFanout,
  idle: benchIdle,
  reaction: benchReaction,
  players: benchPlayers,
  mqtt: benchMqtt,
  heard: benchHeard,
  page: benchPage,
  policy: benchPolicy,
  replies: benchReplies,
  routing: benchRouting,
  startup: benchStartup,
  storage: benchStorage,
  scaled: benchScaled,
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !Object.hasOwn(BENCHES, name));
if (unknown.length > 0)
  throw new Error(`no bench: ${unknown.join(", ")}; there are ${Object.keys(BENCHES).join(", ")}`);
for (const [name, bench] of Object.entries(BENCHES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n${name}`);
  printTable(await bench());
}
