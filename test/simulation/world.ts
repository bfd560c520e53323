import type { Catalog } from "../../src/config/catalog.ts";
import type { FloorId } from "../../src/protocol/ids.ts";
import type { FloorChange } from "../../src/store/store.ts";
import { Chance } from "../support/chance.ts";
import { drawCatalog } from "./catalogue.ts";
import { describeChange, describeMessage } from "./description.ts";
import { JobQueue } from "./job-queue.ts";
import { Members } from "./members.ts";
import type { MemoryStore } from "./memory-store.ts";
import { Broken } from "./must.ts";
import { Network } from "./network.ts";
import type { Seams } from "./seams.ts";
import { SimClock } from "./sim-clock.ts";
import { FAIR_STORE, type StoreWeather } from "./store-link.ts";
import { drawTheme, type Theme } from "./theme.ts";
import { Trace } from "./trace.ts";
import { Watch } from "./watch.ts";

/** How far clocks of nodes may be apart, in ms. */
const SKEW_MS = 40;

/** All that a history is made of, from one seed; what happens in it is drawn from `chance`, and from nothing else. */
export class World {
  readonly clock = new SimClock();
  readonly chance: Chance;
  readonly trace: Trace;
  readonly theme: Theme;
  readonly catalog: Catalog;
  readonly seams: Seams;
  readonly memory: MemoryStore;
  readonly network: Network;
  readonly queue: JobQueue;
  readonly members: Members;
  readonly watch: Watch;
  readonly floorIds: readonly FloorId[];
  storeWeather: StoreWeather = FAIR_STORE;
  /** Nothing goes wrong any more. */
  isFair = false;
  readonly #counts = new Map<string, number>();
  #broken: string | undefined;

  constructor(seed: number, seams: Seams) {
    const { clock } = this;
    this.chance = new Chance(seed);
    const { chance } = this;
    this.trace = new Trace(clock);
    const { trace } = this;
    this.seams = seams;
    this.theme = drawTheme(chance);
    this.catalog = drawCatalog(chance);
    this.watch = new Watch(this.catalog);
    this.memory = seams.openStore();
    this.memory.onCommit = (change) => this.#observe(change);
    this.network = new Network({ clock, chance, trace, describe: describeMessage });
    this.queue = new JobQueue({ clock, chance, trace });
    this.members = new Members(clock, chance);
    this.floorIds = ["u:ann", "u:bob/rear", "u:eve"].slice(0, chance.pick([1, 1, 1, 1, 1, 2, 2, 2, 3])) as FloorId[];
  }

  /** What was promised and not kept, if anything was. */
  get broken(): string | undefined {
    return this.#broken;
  }

  /** The first fault ends the history. */
  break(what: string): void {
    if (this.#broken !== undefined) return;
    this.#broken = what;
    this.trace.add("!!!", what);
  }

  /** What `check` throws breaks the history. */
  expect(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.break(error instanceof Broken ? error.message : `a check failed: ${(error as Error).stack}`);
    }
  }

  /** Count something worth knowing about many histories. */
  count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  get counts(): ReadonlyMap<string, number> {
    const replaced = [...this.watch.floors].reduce((sum, floor) => sum + floor.replaced, 0);
    return new Map([...this.#counts, ["attempts replaced", replaced]]);
  }

  drawSkew(): number {
    return this.chance.below(SKEW_MS) - SKEW_MS / 2;
  }

  #observe(change: FloorChange): void {
    this.count("commits");
    this.trace.add("store", () => describeChange(change));
    this.expect(() => this.watch.take(change, this.clock.now()));
  }
}
