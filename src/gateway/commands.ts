import { createHmac, hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Clock } from "../protocol/clock.ts";
import type { Command, Envelope } from "../protocol/command.ts";
import { AppError } from "../protocol/errors.ts";
import { CommandId, type FloorId, type MessageId, type RunId, type SessionId } from "../protocol/ids.ts";
import { logPosition } from "../protocol/position.ts";
import type { Accepted, Reply } from "../protocol/reply.ts";
import type { Trace } from "../protocol/tracer.ts";
import type { Store } from "../store/store.ts";
import { type Caller, maySee } from "./auth.ts";

/** One write of a caller, by which a repeat is known (rules C2 and C3). */
export interface Identity {
  caller: Caller;
  commandId: string;
  bodyHash: string;
  /** The client chose the key, so this may be a repeat. */
  isKeyed: boolean;
  /** What it is part of, where that is traced. */
  trace?: Trace | undefined;
}

export interface CommandsOptions {
  ask: (envelope: Envelope) => Promise<Reply>;
  store: Pick<Store, "epoch" | "secret" | "whereIs" | "findReceipts">;
  clock: Clock;
  newId: () => string;
  deadlineMs: number;
}

/** Where a session lives, for callers who may know. */
export interface Place {
  floorId: FloorId;
  ownerId: string | undefined;
}

/** Sessions whose place is remembered. */
const MAX_PLACES = 10_000;

/** Requests as commands: who asks what of which floor, under which key. */
export class Commands {
  readonly #options: CommandsOptions;
  /** A session's floor and owner never change; the one learned last stands last. */
  readonly #places = new Map<SessionId, Place>();

  constructor(options: CommandsOptions) {
    this.#options = options;
  }

  /**
   * @param body as the schema left it; `connectionId` and `commandId` are no part of what is asked
   * @throws AppError `bad_request` for a key that is none
   */
  identify(caller: Caller, request: FastifyRequest, body: object = {}): Identity {
    const header = request.headers["idempotency-key"];
    const { commandId: named, connectionId: _, ...asked } = body as { commandId?: string; connectionId?: string };
    const key = header ?? named;
    if (key !== undefined && !CommandId.safeParse(key).success) {
      throw new AppError("bad_request", "Idempotency-Key is 1 to 128 visible characters.");
    }
    const path = request.url.split("?", 1)[0];
    const what = `${request.method} ${path} ${JSON.stringify(asked)}`;
    const commandId = (key as string | undefined) ?? this.#newCommandId();
    request.commandId = commandId;
    return {
      caller,
      commandId,
      bodyHash: hash("sha256", what, "base64url"),
      isKeyed: key !== undefined,
      trace: request.trace,
    };
  }

  /** Keys made here rise with time, so that their receipts lie together. */
  #newCommandId(): string {
    const { clock, newId } = this.#options;
    return `${clock.now().toString(36)}${newId()}`;
  }

  /** An id that a repeat gets again and nobody else can guess (rule C3). */
  deriveId<T extends SessionId | MessageId | RunId>({ caller, commandId }: Identity, kind: string): T {
    const hmac = createHmac("sha256", this.#options.store.secret);
    return hmac
      .update(JSON.stringify([kind, caller.id, commandId]))
      .digest("base64url")
      .slice(0, 22) as T;
  }

  /**
   * Ask a floor and wait for its answer.
   * @throws AppError for a refusal, with its facts; `busy` and `unavailable` carry the key to repeat
   */
  async ask(floorId: FloorId, command: Command, identity: Identity): Promise<Accepted> {
    const reply = await this.#ask({
      floorId,
      caller: identity.caller.id,
      commandId: identity.commandId,
      bodyHash: identity.bodyHash,
      deadline: this.#options.clock.now() + this.#options.deadlineMs,
      trace: identity.trace,
      command,
    });
    // It may be remembered here although it is gone.
    if (!reply.ok && reply.code === "session_not_found" && "sessionId" in command) {
      this.#places.delete(command.sessionId as SessionId);
    }
    const answer = accepted(reply);
    const { session } = answer;
    if (session) this.#remember(session.id, { floorId, ownerId: session.ownerId });
    return answer;
  }

  /** Ask what changes nothing: it needs no key and leaves no receipt. */
  async look(floorId: FloorId, command: Command, trace?: Trace): Promise<Accepted> {
    const { clock, deadlineMs, newId } = this.#options;
    const deadline = clock.now() + deadlineMs;
    return accepted(await this.#ask({ floorId, commandId: newId(), bodyHash: "", deadline, trace, command }));
  }

  /**
   * The answer a repeat got before, where what it is about is not in the request itself: it may mean something else by
   * now (rule C3).
   */
  async findAnswer({ caller, commandId, bodyHash, isKeyed }: Identity): Promise<Accepted | undefined> {
    if (!isKeyed) return undefined;
    const [receipt] = await this.#options.store.findReceipts([{ caller: caller.id, commandId }]);
    if (!receipt) return undefined;
    if (receipt.bodyHash !== bodyHash) throw new AppError("idempotency_mismatch");
    return accepted(JSON.parse(receipt.reply));
  }

  /** @throws AppError `session_not_found`, also for what the caller may not see */
  async locate(caller: Caller, sessionId: SessionId): Promise<Place> {
    const place = this.#places.get(sessionId) ?? (await this.#findPlace(sessionId));
    if (!place || !maySee(caller, place.ownerId)) throw new AppError("session_not_found");
    return place;
  }

  async #findPlace(sessionId: SessionId): Promise<Place | undefined> {
    const where = await this.#options.store.whereIs(sessionId);
    if (!where || where.tombstone) return undefined;
    const place = { floorId: where.floorId, ownerId: where.ownerId };
    this.#remember(sessionId, place);
    return place;
  }

  #remember(sessionId: SessionId, place: Place): void {
    if (this.#places.has(sessionId)) return;
    this.#places.set(sessionId, place);
    if (this.#places.size > MAX_PLACES) this.#places.delete(this.#places.keys().next().value!);
  }

  /** Where a session's log stands with this answer. */
  positionOf({ seq }: { seq?: number | undefined }): { position?: string } {
    return seq === undefined ? {} : { position: logPosition(this.#options.store.epoch, seq) };
  }

  async #ask(envelope: Envelope): Promise<Reply> {
    try {
      return await this.#options.ask(envelope);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const { code, message, facts } = error;
      if (code !== "busy" && code !== "unavailable") throw error;
      throw new AppError(code, message, { facts: { ...facts, commandId: envelope.commandId } });
    }
  }
}

function accepted(reply: Reply): Accepted {
  if (reply.ok) return reply;
  throw new AppError(reply.code, reply.message, reply.facts ? { facts: reply.facts } : {});
}
