import { pauseFor } from "../../client/delay.ts";
import { type Client, ClientError, type FloorView, type ServerEvent } from "../../client/interlock-client.ts";
import type { Decision } from "../../protocol/decision.ts";

/** The pause before a floor is read again that could not be read, in ms. */
const AGAIN_MS = 1_000;
const AFTER_FAULT_MS = 5_000;
/** The newest events in which reasons are looked for, at the start. */
const LOG_EVENTS = 500;
/** Reasons are kept for so many sessions; a floor has some ten at a time. */
const MAX_REASONS = 1_000;

export interface FollowedFloorListener {
  /** The floor as it is now. `isFresh`: it was read anew, at the start or after an interruption. */
  onFloor(floor: FloorView, reasons: ReadonlyMap<string, string>, isFresh: boolean): void;
  onDecision(decision: Decision): void;
  /** The floor decides by another catalogue from now on. */
  onCatalogue(): void;
  /** The node answered, but refuses; undefined: it does not any more. */
  onFault(error: ClientError | undefined): void;
}

/** A floor that is followed until the signal is aborted, however often the node goes away. */
export async function followFloor(
  client: Client,
  floorId: string,
  listener: FollowedFloorListener,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await readFloor(client, floorId, listener, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ClientError)) throw error;
      if (!error.wantsRepeat) listener.onFault(error);
      await pauseFor(error.wantsRepeat ? AGAIN_MS : AFTER_FAULT_MS, signal);
    }
  }
}

/** From the floor's present state, until its stream cannot continue. */
async function readFloor(
  client: Client,
  floorId: string,
  listener: FollowedFloorListener,
  signal: AbortSignal,
): Promise<void> {
  const floor = await client.getFloor(floorId, { signal });
  const reasons = new Map<string, string>();
  const { events } = await client.readFloorLog(floorId, { limit: LOG_EVENTS }, { signal });
  for (const event of events.toReversed()) noteReason(reasons, event);
  listener.onFault(undefined);
  listener.onFloor(floor, reasons, true);
  const again = new Rereading(client, floorId, signal, (next) => listener.onFloor(next, reasons, false));
  const { position } = floor;
  // Titles are no events of a floor, but move its position.
  const onPosition = (at: string) => at !== position && again.note();
  for await (const event of client.openFloor(floorId, { position, signal, onPosition })) {
    if (event.type === "reset") return;
    noteReason(reasons, event);
    if (event.type === "arbitration") listener.onDecision(event.data);
    if (event.type === "floor_updated" && event.data.catalogue) listener.onCatalogue();
    again.note();
  }
  // The stream of a floor does not end by itself.
  await pauseFor(AGAIN_MS, signal);
}

function noteReason(reasons: Map<string, string>, { type, sessionId, data }: ServerEvent): void {
  if (sessionId === undefined) return;
  if (type === "session_transition") {
    const { reason, by, to } = data as { reason?: string; by?: { agentId: string }; to: string };
    reasons.delete(sessionId);
    if (!/^(archived|deleted)$/.test(to)) {
      reasons.set(sessionId, by ? `${reason ?? "changed"} by ${by.agentId}` : (reason ?? "changed"));
    }
  } else if (type === "arbitration" && !reasons.has(sessionId)) {
    reasons.set(sessionId, (data as Decision).reason);
  }
  if (reasons.size > MAX_REASONS) reasons.delete(reasons.keys().next().value!);
}

/** Reads a floor after it has changed, and again if it has changed meanwhile: one read at a time. */
class Rereading {
  readonly #client: Client;
  readonly #floorId: string;
  readonly #signal: AbortSignal;
  readonly #onFloor: (floor: FloorView) => void;
  #isStale = false;
  #isReading = false;

  constructor(client: Client, floorId: string, signal: AbortSignal, onFloor: (floor: FloorView) => void) {
    this.#client = client;
    this.#floorId = floorId;
    this.#signal = signal;
    this.#onFloor = onFloor;
  }

  note(): void {
    this.#isStale = true;
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#isStale && !this.#signal.aborted) {
      this.#isStale = false;
      try {
        const floor = await this.#client.getFloor(this.#floorId, { signal: this.#signal });
        if (!this.#signal.aborted) this.#onFloor(floor);
      } catch (error) {
        if (this.#signal.aborted) break;
        if (!(error instanceof ClientError)) throw error;
        this.#isStale = true;
        await pauseFor(AGAIN_MS, this.#signal);
      }
    }
    this.#isReading = false;
  }
}
