import { prove } from "../../../src/policy/proof.ts";
import { Chance } from "../runner/chance.ts";
import type { JudgedCatalog } from "./judged-catalog.ts";
import { randomCatalog, toCatalog } from "./random-catalog.ts";
import { walk } from "./random-walk.ts";
import { playStory } from "./told-story.ts";
import { unlikeTwins } from "./twins.ts";

const WALKS = 400;
/** Walks that look for unlike states of one key. */
const TWIN_WALKS = 200;
/** The sessions at a time of the walks: as many as the proof took to its end, up to three. */
const [LEAST, MOST] = [2, 3];
/** Steps of the exploration of each scope; a catalogue that needs more is not judged by its claims. */
const NEEDED = 20_000;

export interface Trial {
  readonly catalog: JudgedCatalog;
  /** Claims that hold by the word of the prover, and claims that are broken. */
  readonly held: number;
  readonly broken: number;
  readonly isUnfinished: boolean;
  /** Stories that were played on another floor. */
  readonly stories: readonly { readonly name: string; readonly script: string }[];
  /** Steps of random walks. */
  readonly steps: number;
  /** What the prover says and a log does not, or a log and the prover does not. */
  readonly differences: readonly string[];
}

/** Prove a random catalogue, play the stories, and walk at random: by the seed alone. */
export function tryProver(seed: number, { walks = WALKS, twinWalks = TWIN_WALKS, needed = NEEDED } = {}): Trial {
  const chance = new Chance(seed);
  const catalog = randomCatalog(chance);
  const unlike = unlikeTwins(toCatalog(catalog), twinWalks, new Chance(seed));
  const { outcome, broken, fault, reached } = prove({ catalog: toCatalog(catalog), work: { needed, further: needed } });
  const differences = [...unlike];
  if (outcome === "faulty") differences.push(`the prover finds its own fault: ${fault}`);
  const known = new Set<string>();
  const stories = broken.map(({ claim, what, script }) => ({ name: claim?.name ?? what, what, script }));
  for (const { name, what, script } of stories) {
    known.add(name);
    const { judge } = playStory(script, catalog);
    if (!name.startsWith("invariant") && judge.broken.has(name)) continue;
    differences.push(name.startsWith("invariant") ? what : `a story does not replay: ${what}\n${script}`);
  }
  const isUnfinished = reached < LEAST;
  const size = Math.min(Math.max(reached, LEAST), MOST);
  const claims = catalog.claims!.map(({ name }) => name);
  if (isUnfinished || outcome === "faulty") for (const name of claims) known.add(name);
  let steps = 0;
  const missed = new Set<string>();
  for (let index = 0; index < walks; index++) {
    const walked = walk(catalog, size, chance);
    steps += walked.steps;
    for (const [name, why] of walked.judge.broken) {
      if (known.has(name) || missed.has(name)) continue;
      missed.add(name);
      differences.push(`walk ${index} breaks “${name}”: ${why}`);
    }
  }
  const held = claims.filter((name) => !known.has(name)).length;
  return { catalog, held, broken: broken.length, isUnfinished, stories, steps, differences };
}
