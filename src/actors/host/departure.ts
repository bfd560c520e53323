// Rules C33 and C34 of docs/inside/correctness.md.
import { AppError } from "../../protocol/errors.ts";
import type { CommandOf, Envelope } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import type { Given } from "../facts.ts";
import { carriedBy, type SessionContext } from "../session/session-context.ts";
import { refuseForeign, refuseStale } from "./admission.ts";
import type { FloorActors } from "./floor-actors.ts";
import type { Ledger } from "./ledger.ts";

const WAITS_FOR_TIME = "It waits for its time. End it, and create one on the other floor.";
const HAS_ACTED =
  "Its turn has called a tool, asked something or started a program, which would happen again. Move the session when the turn has ended, or abort it.";

/** A session that leaves its floor in the commit with which it goes on on another one. */
export class Departure {
  readonly actors: FloorActors;
  /** Of the floor that it leaves. */
  readonly ledger: Ledger;
  /** Why it stays; undefined: it may leave. */
  readonly refusal: Reply | undefined;
  /** Whether it has left: the other floor did not refuse it. */
  hasLeft = false;
  readonly #command: CommandOf<"session.move">;
  readonly #floorId: Envelope["floorId"];
  readonly #given: () => Given;

  /**
   * @param actors the floor that it leaves, with everything carried out that is due
   * @throws AppError `busy` if it has had events since its messages were copied
   */
  constructor(
    envelope: Envelope,
    command: CommandOf<"session.move">,
    actors: FloorActors,
    ledger: Ledger,
    given: () => Given,
  ) {
    this.actors = actors;
    this.ledger = ledger;
    this.#command = command;
    this.#floorId = envelope.floorId;
    this.#given = given;
    this.refusal = this.#whyNot(envelope);
    if (!this.refusal && ledger.seqOf(command.from.sessionId) !== command.from.seq)
      throw new AppError("busy", "The session changed while its messages were copied. Repeat with the same key.");
  }

  /** What the other floor's session has from this one. */
  get brings(): { carried?: ReturnType<typeof carriedBy>; hasBegun?: boolean } {
    const session = this.actors.machineState(this.#command.from.sessionId)?.context;
    return session ? { carried: carriedBy(session), hasBegun: hasBegun(session) } : {};
  }

  /** Archive it in favour of the session in which it goes on. @param actors those of the other floor */
  leave(actors: FloorActors): void {
    const { from, sessionId } = this.#command;
    const { agentId } = actors.machineState(sessionId)!.context.numbers;
    const given = this.#given();
    const by = { sessionId, agentId };
    const leaving = { type: "session.replace" as const, sessionId: from.sessionId, by, movedTo: this.#floorId };
    this.ledger.write(this.actors.apply({ ...leaving, given }).facts, given.now);
    this.hasLeft = true;
  }

  #whyNot(envelope: Envelope): Reply | undefined {
    const { sessionId, floorId } = this.#command.from;
    const session = this.actors.machineState(sessionId)?.context;
    if (!session) return { ok: false, code: "session_not_found" };
    const by = { sessionId, agentId: session.numbers.agentId };
    const foreign = refuseForeign(
      { ...envelope, floorId, command: { type: "session.replace", sessionId, by } },
      this.actors,
    );
    if (foreign) return foreign;
    if (session.archivedAt !== undefined) return { ok: false, code: "session_archived" };
    const stale = refuseStale(envelope, sessionId, this.actors, this.ledger);
    if (stale) return stale;
    if (session.schedule) return { ok: false, code: "illegal_command", message: WAITS_FOR_TIME };
    return session.run?.did === "acted" ? { ok: false, code: "agent_busy", message: HAS_ACTED } : undefined;
  }
}

/** Whether the first turn that the session takes along has begun, here or on a floor before. */
const hasBegun = ({ run, turns }: SessionContext): boolean => run !== undefined || turns[0]?.hasBegun === true;
