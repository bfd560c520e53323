import type { AgentsAnswer } from "../../src/client/answers.ts";
import type { Live, LiveState } from "../../src/client/live/live.ts";
import type { LiveViews } from "../../src/client/live/live-views.ts";
import type { Address } from "../shell/address.ts";

interface Source {
  view: string;
  /** The floor whose events are followed, if any. */
  followed: string | undefined;
  isFile: boolean;
}

/**
 * The one stream that a view takes its connection's state from: that of its floor; without a chosen floor, that of all
 * floors in the view that lists them, and a connection otherwise.
 */
export function sourceOf(views: LiveViews, { view, followed, isFile }: Source): Live<LiveState> {
  const anyFloor = view === "floor" && !isFile ? views.floors : views.connection;
  return (followed === undefined ? anyFloor : views.floor(followed)) as unknown as Live<LiveState>;
}

/** What the first view needs from the server, requested before the view is made, because both take about as long. */
export class Opening {
  #agents: Promise<AgentsAnswer> | undefined;
  readonly #leave: () => void;

  constructor(views: LiveViews, { view, rest: [floorId] }: Address) {
    this.#leave = sourceOf(views, { view, followed: floorId || undefined, isFile: false }).subscribe(() => undefined);
    this.#agents = views.client.listAgents();
    // It may fail before its reader awaits it.
    this.#agents.catch(() => undefined);
  }

  /** The catalogue without any workspace, once: a later reader reads it again. */
  receiveAgents(): Promise<AgentsAnswer> | undefined {
    const agents = this.#agents;
    this.#agents = undefined;
    return agents;
  }

  /** The view watches its stream itself. */
  end(): void {
    this.#leave();
  }
}
