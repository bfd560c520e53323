import type { NodeProcess } from "../nodes/node.ts";
import type { World } from "../world.ts";

const TRAVEL_MS = 3;
/** The client's timeout, in ms. */
const PATIENCE_MS = 7_000;

/**
 * Send a request to a node from outside. `cut`: the connection broke, the node died, or the timeout passed; the request
 * may have been executed.
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
