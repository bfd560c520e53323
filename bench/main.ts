import { benchCommands } from "./commands.ts";
import { printTable } from "./support/table.ts";

/** What is fast, measured beside its limit in the same run. `npm run bench [-- commands fanout …]` */
const BENCHES = { commands: benchCommands };

const wanted = process.argv.slice(2);
for (const [name, bench] of Object.entries(BENCHES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n${name}`);
  printTable(await bench());
}
