import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Session } from "../../protocol/session.ts";
import type { DeadlineSources } from "../facts.ts";
import type { MachineState } from "../machine/machine-player.ts";
import type { Configuration } from "../machine/machine-table.ts";
import { memoryOf, type SessionContext, type SessionValue, sessionView } from "../session/session-context.ts";
import { deadlineOf, type SessionDeadline } from "../session/session-deadlines.ts";

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
