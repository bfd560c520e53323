import { AppError } from "../../../src/protocol/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Chance } from "../../support/runner/chance.ts";
import type { MemoryStore } from "../../support/stores/memory-store.ts";
import type { Life } from "../nodes/life.ts";
import type { Surroundings } from "../surroundings.ts";

/** The chance of each fault of a request to the store, in percent. */
export interface StoreWeather {
  /** The request is lost. */
  failBefore: number;
  /** It is executed, and its answer is lost. */
  failAfter: number;
  /** The request or its answer is delayed for a long time. */
  stall: number;
  stallMs: number;
  /** A commit is refused although it is valid, as databases do under load. */
  conflict: number;
  /** No request arrives. */
  isAway: boolean;
}

export const FAIR_STORE: StoreWeather = {
  failBefore: 0,
  failAfter: 0,
  stall: 0,
  stallMs: 0,
  conflict: 0,
  isAway: false,
};

/** The delay of a request without faults, and of its answer, in ms. */
const TRAVEL_MS = 4;

interface StoreLinkOptions extends Surroundings {
  memory: MemoryStore;
  weather: () => StoreWeather;
}

type Work = (...given: unknown[]) => Promise<unknown>;

/** The store as one process has it: over a connection, with delays, and sometimes without an answer. */
export function linkStore(life: Life, options: StoreLinkOptions): Store {
  return new Proxy<Store>(options.memory, {
    get(memory, name: keyof Store) {
      const own: unknown = memory[name];
      if (typeof own !== "function") return own;
      const work: Work = own.bind(memory);
      return (...given: unknown[]) =>
        life.call((done, failed) => ask(life, name, options, () => work(...given), done, failed));
    },
  });
}

function ask(
  life: Life,
  name: string,
  { clock, chance, trace, weather }: StoreLinkOptions,
  work: () => Promise<unknown>,
  done: (answer: unknown) => void,
  failed: (error: unknown) => void,
): void {
  const fate = fateOf(name, chance, weather());
  if (fate !== "fair") trace.add(life.name, `store.${name}: ${fate}`);
  const travel = (isSlow: boolean) => 1 + chance.below(isSlow ? weather().stallMs : TRAVEL_MS);
  const thereMs = travel(fate === "slow there");
  const backMs = travel(fate === "slow back");
  const fail = () => failed(new AppError("unavailable", "the store cannot be had"));
  // A request that has left the process arrives even if the process dies meanwhile.
  clock.after(thereMs, () => {
    if (weather().isAway || fate === "lost before") return void clock.after(backMs, fail);
    if (fate === "conflict") return void clock.after(backMs, () => done("conflict"));
    work().then(
      (answer) => {
        const isLost = fate === "lost after";
        if (name === "commit") trace.add(life.name, `commit: ${answer}${isLost ? ", which it does not learn" : ""}`);
        clock.after(backMs, () => (isLost ? fail() : done(answer)));
      },
      (error) => void clock.after(backMs, () => failed(error)),
    );
  });
}

type Fate = "fair" | "lost before" | "lost after" | "slow there" | "slow back" | "conflict";

function fateOf(name: string, chance: Chance, sky: StoreWeather): Fate {
  if (sky.failBefore > 0 && chance.percent(sky.failBefore)) return "lost before";
  if (sky.failAfter > 0 && chance.percent(sky.failAfter)) return "lost after";
  if (sky.stall > 0 && chance.percent(sky.stall)) return chance.percent(50) ? "slow there" : "slow back";
  if (sky.conflict > 0 && name === "commit" && chance.percent(sky.conflict)) return "conflict";
  return "fair";
}
