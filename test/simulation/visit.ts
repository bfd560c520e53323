import type { NodeProcess } from "./node.ts";
import type { World } from "./world.ts";

const TRAVEL_MS = 3;
/** Whoever asks gives up after so long, in ms. */
const PATIENCE_MS = 7_000;

/**
 * Ask a node for something from outside. `cut`: the connection broke, the node died, or it took too long; what was asked
 * for may have been done all the same.
 */
export function visit<T>({ clock, chance }: World, node: NodeProcess, ask: () => Promise<T>): Promise<T | "cut"> {
  return new Promise((resolve) => {
    const travel = () => 1 + chance.below(TRAVEL_MS);
    clock.after(PATIENCE_MS, () => resolve("cut"));
    node.life.onDeath(() => clock.after(travel(), () => resolve("cut")));
    const back = (answer: T | "cut") => {
      if (node.life.acts()) clock.after(travel(), () => resolve(answer));
    };
    clock.after(travel(), () =>
      node.life.enter(
        () =>
          void ask().then(back, () => {
            back("cut");
          }),
      ),
    );
  });
}
