import type { World } from "../world.ts";
import { NodeProcess, type Role } from "./node.ts";

interface Node {
  name: string;
  roles: ReadonlySet<Role>;
  generation: number;
  process: NodeProcess;
}

const SHAPES: readonly (readonly Role[][])[] = [
  [
    ["gateway", "orchestrator", "worker"],
    ["gateway", "orchestrator", "worker"],
  ],
  [["gateway"], ["gateway"], ["orchestrator"], ["orchestrator"], ["worker"], ["worker"]],
  [["gateway", "worker"], ["gateway"], ["orchestrator"], ["orchestrator", "worker"]],
];

/** The nodes of a world: each runs one process after another. */
export class Cluster {
  readonly #world: World;
  readonly #nodes: Node[];

  constructor(world: World) {
    this.#world = world;
    this.#nodes = world.chance.pick(SHAPES).map((roles, index) => {
      const name = `n${index + 1}`;
      const named = new Set(roles);
      return { name, roles: named, generation: 1, process: new NodeProcess(world, name, 1, named) };
    });
  }

  get processes(): NodeProcess[] {
    return this.#nodes.map(({ process }) => process);
  }

  get names(): string[] {
    return this.#nodes.map(({ name }) => name);
  }

  /** One of them; preferably one that drives a run. */
  pick(): NodeProcess {
    const { chance, theme } = this.#world;
    const busy = this.processes.filter(({ isDriving }) => isDriving);
    return chance.pick(busy.length > 0 && chance.percent(theme.hitsDrivers) ? busy : this.processes);
  }

  /** A gateway that an outside client would try. */
  pickGateway(): NodeProcess | undefined {
    const ready = this.processes.filter((process) => process.gateway && process.isReady && !process.isCutOff);
    return ready.length > 0 ? this.#world.chance.pick(ready) : undefined;
  }

  /** Restart every dead process, as the operator does; not while the database's clock is wrong. */
  restartDead(): void {
    if (this.#world.databaseClock.errs) return;
    for (const node of this.#nodes) {
      if (!node.process.life.isDead) continue;
      node.generation += 1;
      this.#world.trace.add(node.name, `is started again as ${node.name}.${node.generation}`);
      node.process = new NodeProcess(this.#world, node.name, node.generation, node.roles);
    }
  }
}
