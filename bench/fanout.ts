import { Child } from "./support/child.ts";
import { Readers } from "./support/readers.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** One event delivered to many readers, and many events delivered to one reader each. */
const READERS = 1_000;
const EVENTS = 100;
const ROUNDS = 7;

interface Round {
  perSecond: number;
  cpuUs: number;
}

async function playRound(child: Child, readers: Readers, floors: number): Promise<Round> {
  const before = await child.usage();
  const begun = performance.now();
  const delivered = readers.frames(READERS * EVENTS);
  await Promise.all([delivered, child.ask({ ask: "emit", events: EVENTS, floors })]);
  const seconds = (performance.now() - begun) / 1_000;
  const { cpuUs } = await child.usage();
  const deliveries = READERS * EVENTS;
  return { perSecond: deliveries / seconds, cpuUs: (cpuUs - before.cpuUs) / deliveries };
}

export async function benchFanout(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const floors of [1, READERS]) {
    const bare = await Child.start("bare-http.ts");
    const ours = await Child.start("fanout.ts", [String(floors)]);
    const paths = Array.from({ length: READERS }, (_, index) => `/session/s${index % floors}/events`);
    const bareReaders = await Readers.open(bare.url, paths);
    const ourReaders = await Readers.open(ours.url, paths);
    const rounds: { bare: Round[]; ours: Round[] } = { bare: [], ours: [] };
    for (let round = 0; round <= ROUNDS; round++) {
      const measured = {
        bare: await playRound(bare, bareReaders, floors),
        ours: await playRound(ours, ourReaders, floors),
      };
      // The first round warms up.
      if (round === 0) continue;
      rounds.bare.push(measured.bare);
      rounds.ours.push(measured.ours);
    }
    bareReaders.close();
    ourReaders.close();
    await bare.stop();
    await ours.stop();
    const of = (side: Round[], key: keyof Round) => median(side.map((round) => round[key]));
    const name = floors === 1 ? "one session, 1,000 readers" : "1,000 sessions, one reader each";
    rows.push(
      {
        what: `deliveries/s, ${name}`,
        ours: of(rounds.ours, "perSecond"),
        reference: of(rounds.bare, "perSecond"),
        unit: "/s",
        atLeast: 0.7,
      },
      {
        what: `CPU per delivery, ${name}`,
        ours: of(rounds.ours, "cpuUs"),
        reference: of(rounds.bare, "cpuUs"),
        unit: "µs",
      },
    );
  }
  return rows;
}
