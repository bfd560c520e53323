import type { Catalog } from "../../config/catalog/catalog.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { Session } from "../../protocol/session.ts";
import type { DeadlineSources } from "../facts.ts";
import type { Configuration, MachineState } from "../machine/machine-player.ts";
import { memoryOf, type SessionContext, type SessionValue, sessionView } from "../session/session-context.ts";
import { deadlineOf, type SessionDeadline } from "../session/session-deadlines.ts";
import type { SessionEvent } from "../session/session-step.ts";

/** The state of a session's machine, immutable. What is derived from it is computed once. */
export class SessionMachineState implements MachineState<SessionContext> {
  readonly at: Configuration;
  readonly context: SessionContext;
  #view: Session | undefined;
  #memory: string | undefined;
  #deadline: { of: Catalog; first: SessionDeadline | undefined } | undefined;

  constructor({ at, context }: MachineState<SessionContext>) {
    this.at = at;
    this.context = context;
  }

  get value(): SessionValue {
    return this.at.value as unknown as SessionValue;
  }

  /** Whether the floor keeps it in memory although it does not compete: it has a run, or waits for its time. */
  get isKept(): boolean {
    const { run, schedule } = this.context;
    return this.value.lifecycle !== "deleted" && (run !== undefined || schedule !== undefined);
  }

  /** The session as replies show it. */
  get view(): Session {
    this.#view ??= sessionView(this.context, this.value);
    return this.#view;
  }

  /** Its earliest deadline, by this catalogue. */
  deadline(sources: DeadlineSources): SessionDeadline | undefined {
    if (this.#deadline?.of !== sources.catalog) {
      this.#deadline = { of: sources.catalog, first: deadlineOf(this.context, sources) };
    }
    return this.#deadline.first;
  }

  /** The rest of its memory as JSON, for its row. */
  get memory(): string {
    this.#memory ??= memoryOf(this.context);
    return this.#memory;
  }
}

/** A session's actor: its state and the queue of its events. It handles one event at a time. */
export class SessionActor {
  readonly id: SessionId;
  readonly waiting: SessionEvent[] = [];
  machineState: SessionMachineState;
  /** When it was used last, in steps of the floor's sessions. */
  usedAt: number;
  isBusy = false;
  /** Whether it changed since the last `drainTouched`. */
  isTouched = false;
  /** Whether it is deleted. It stays until it is evicted, so that its deletion is committed. */
  isGone = false;

  constructor(id: SessionId, machineState: SessionMachineState, usedAt = 0) {
    this.id = id;
    this.machineState = machineState;
    this.usedAt = usedAt;
  }
}
