import type { Catalog } from "../../src/config/catalog/catalog.ts";
import { Broken } from "../../src/policy/arrangement-check.ts";
import type { FloorId } from "../../src/protocol/ids.ts";
import type { FloorChange } from "../../src/store/store.ts";
import { Chance } from "../support/runner/chance.ts";
import type { MemoryStore } from "../support/stores/memory-store.ts";
import { Watch } from "./checks/watch.ts";
import { describeChange } from "./description.ts";
import { Members } from "./nodes/members.ts";
import { type Seams, SOUND } from "./nodes/seams.ts";
import { drawCatalog } from "./services/catalogue.ts";
import { DatabaseClock } from "./services/database-clock.ts";
import { JobQueue } from "./services/job-queue.ts";
import { Network } from "./services/network.ts";
import { FAIR_STORE, type StoreWeather } from "./services/store-link.ts";
import { SimClock } from "./sim-clock.ts";
import { drawTheme, THEMES, type Theme, type ThemeName } from "./theme.ts";
import { Trace } from "./trace.ts";

/** The largest difference between nodes' clocks, in ms. */
const SKEW_MS = 40;

/** The limit of heavy messages in one history. */
const MAX_HEAVY = 8;

/** How a history differs from its seed. */
export interface Staging {
  /** Default: drawn. */
  theme?: ThemeName | undefined;
  /** A planted fault. Default: none. */
  seams?: Partial<Seams>;
}

/** The parts of a history, from one seed. Every random decision is drawn from `chance`. */
export class World {
  readonly clock = new SimClock();
  readonly chance: Chance;
  readonly trace: Trace;
  readonly themeName: ThemeName;
  readonly theme: Theme;
  readonly catalog: Catalog;
  readonly seams: Seams;
  readonly memory: MemoryStore;
  readonly databaseClock: DatabaseClock;
  readonly network: Network;
  readonly queue: JobQueue;
  readonly members: Members;
  readonly watch: Watch;
  readonly floorIds: readonly FloorId[];
  storeWeather: StoreWeather = FAIR_STORE;
  /** Nodes that the store does not answer, while it answers the others and their bus works. */
  readonly cutOff = new Set<string>();
  /** Whether there are no more faults. */
  isFair = false;
  readonly #counts = new Map<string, number>();
  #heavyLeft = MAX_HEAVY;
  #broken: string | undefined;

  constructor(seed: number, { theme, seams = {} }: Staging) {
    const { clock } = this;
    this.chance = new Chance(seed);
    const { chance } = this;
    this.trace = new Trace(clock);
    this.seams = { ...SOUND, ...seams };
    // It is drawn in any case, so that naming a theme changes nothing else.
    const drawn = drawTheme(chance);
    this.themeName = theme ?? drawn;
    this.theme = THEMES[this.themeName];
    this.catalog = drawCatalog(chance, this.theme.shares);
    this.watch = new Watch(this.catalog);
    this.memory = this.seams.openStore();
    this.memory.onCommit = (change) => this.#observe(change);
    this.databaseClock = new DatabaseClock(this);
    this.network = new Network(this);
    this.queue = new JobQueue(this);
    this.members = new Members(clock, chance);
    this.floorIds = ["u:ann", "u:bob/rear", "u:eve"].slice(0, chance.pick([1, 1, 1, 1, 1, 2, 2, 2, 3])) as FloorId[];
  }

  /** The violated invariant, if any. */
  get broken(): string | undefined {
    return this.#broken;
  }

  /** The first fault ends the history. */
  break(what: string): void {
    if (this.#broken !== undefined) return;
    this.#broken = what;
    this.trace.add("!!!", what);
  }

  /** An error thrown by `check` breaks the history. */
  expect(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.break(error instanceof Broken ? error.message : `a check failed: ${(error as Error).stack}`);
    }
  }

  /** Whether there may be another heavy message; they are slow. */
  takeHeavy(): boolean {
    if (this.#heavyLeft === 0) return false;
    this.#heavyLeft -= 1;
    this.count("heavy messages");
    return true;
  }

  /** Count something for statistics over many histories. */
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

  #countEvents({ events }: FloorChange): void {
    for (const { type, json } of events) {
      if (type === "session_transition" && json.includes('"event":"duck"')) this.count("sessions ducked");
      if (type !== "arbitration" && !json.includes('"reason":"restricted"')) continue;
      for (const reason of ["beneath", "critical", "replaced", "restricted"]) {
        if (json.includes(`"reason":"${reason}"`)) this.count(`sessions ${reason}`);
      }
    }
  }

  #observe(change: FloorChange): void {
    this.count("commits");
    this.trace.add("store", () => describeChange(change));
    this.#countEvents(change);
    this.expect(() => this.watch.take(change, this.clock.now()));
  }
}
