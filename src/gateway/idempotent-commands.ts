// Rule C3 of docs/inside/correctness.md.
import { createHmac, hash } from "node:crypto";
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import {
  CommandId,
  type ConnectionId,
  type FloorId,
  type MessageId,
  type RunId,
  type Seq,
  type SessionId,
  userOf,
} from "../protocol/ids.ts";
import { type Command, type CommandOf, type Envelope, sessionCreatedBy } from "../protocol/internal/command.ts";
import type { Accepted, Reply } from "../protocol/internal/reply.ts";
import { type Locale, localeOf } from "../protocol/locale.ts";
import { incarnationOf, logPosition } from "../protocol/position.ts";
import { flow } from "../shared/flow.ts";
import { idText } from "../shared/id-text.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Trace } from "../shared/ports/tracer.ts";
import type { Receipt, ReceiptStore, StoreEpoch, StoreSecret } from "../store/store.ts";
import { type Caller, ownerOf } from "./access/caller.ts";
import type { KnownAddresses } from "./access/known-addresses.ts";
import type { VisibleSessions } from "./access/visible-sessions.ts";
import type { AbandonedRuns } from "./deliveries/abandoned-runs.ts";
import type { RecentRequests } from "./deliveries/recent-requests.ts";
import type { ChosenConnection, Connections } from "./streams/connections.ts";

/** The identity of a caller's write, by which a repeat is recognised (rules C2 and C3). */
export interface Identity {
  caller: Caller;
  commandId: string;
  bodyHash: string;
  /** Whether this may be a repeat: the client chose the key, or the answer to an equal request did not arrive. */
  mayBeRepeat: boolean;
  /** The trace that the write is part of, if it is traced. */
  trace?: Trace | undefined;
  /** The language that the client prefers, by its `Accept-Language`. */
  locale?: Locale | undefined;
}

export interface IdempotentCommandsOptions {
  send: (envelope: Envelope) => Promise<Reply>;
  store: StoreEpoch & StoreSecret & ReceiptStore;
  connections: Pick<Connections, "forNewSession" | "reserve" | "release" | "bindMade">;
  addresses: KnownAddresses;
  visibleTo: (caller: Caller) => Pick<VisibleSessions, "findLiving">;
  requests: Pick<RecentRequests, "identify">;
  abandoned: Pick<AbandonedRuns, "endFor" | "forgetFor">;
  clock: Clock;
  newId: () => string;
  timeoutMs: number;
}

/** A command and the floor it is for. */
export interface Write {
  floorId: FloorId;
  command: Command;
  /** The command acts only if its session's log ends here. */
  ifSeq?: Seq | undefined;
}

/** To which connection a session is bound that a write creates. */
export interface ConnectionChoice {
  /** The one that the request names. Undefined: the one that counts for requests that name none, if any. */
  connectionId: ConnectionId | undefined;
  /** The id of the session, if the write creates one. Undefined: it always does, and its answer has the id. */
  newSessionId?: SessionId | undefined;
}

/**
 * Sends the commands of requests to their floors, each with its caller and its key. A request that is repeated with its
 * key gets the first answer and has no second effect.
 */
export class IdempotentCommands {
  readonly #options: IdempotentCommandsOptions;

  constructor(options: IdempotentCommandsOptions) {
    this.#options = options;
  }

  /**
   * The identity of a write. Without a key it is that of an equal request whose answer did not arrive (rule C32).
   * @param body the validated body; `connectionId` and `commandId` are not part of its hash
   * @throws AppError `bad_request` for a malformed key
   */
  identify(caller: Caller, request: FastifyRequest, body: object = {}): Promise<Identity> {
    const header = request.headers["idempotency-key"];
    const { commandId: named, connectionId: _, ...sent } = body as { commandId?: string; connectionId?: string };
    const path = request.url.split("?", 1)[0];
    const what = `${request.method} ${path} ${JSON.stringify(sent)}`;
    return this.identifyBy(caller, request, header ?? named, what);
  }

  /**
   * The same for a request that is about something else than its path and its body.
   * @param key the client's, if it has chosen one
   * @param what all that the client asked for
   * @throws AppError `bad_request` for a malformed key
   */
  async identifyBy(caller: Caller, request: FastifyRequest, key: unknown, what: string): Promise<Identity> {
    if (key !== undefined && !CommandId.safeParse(key).success) {
      throw new AppError(
        "bad_request",
        "The Idempotency-Key is empty, too long, or has invisible characters. Use 1 to 128 visible characters.",
      );
    }
    const given: Identity = {
      caller,
      commandId: (key as string | undefined) ?? this.#newCommandId(),
      bodyHash: hash("sha256", what, "base64url"),
      mayBeRepeat: key !== undefined,
      trace: request.trace,
      locale: localeOf(request.headers["accept-language"]),
    };
    // The content of a stream is unknown before it is read, so it cannot be compared with that of another request.
    const isWhole = !(request.body instanceof Readable);
    const identity = given.mayBeRepeat || !isWhole ? given : await this.#options.requests.identify(given, request);
    request.commandId = identity.commandId;
    return identity;
  }

  /** The identity of a write that no client repeats. */
  newIdentity(caller: Caller, trace?: Trace): Identity {
    return { caller, commandId: this.#newCommandId(), bodyHash: "", mayBeRepeat: false, trace };
  }

  /** Keys made here rise with time, so that their receipts are stored together. */
  #newCommandId(): string {
    const { clock, newId } = this.#options;
    return `${clock.now().toString(36)}${newId()}`;
  }

  /** An id that a repeat receives again and that cannot be guessed (rule C3). */
  deriveId<T extends SessionId | MessageId | RunId>({ caller, commandId }: Identity, kind: string): T {
    const hmac = createHmac("sha256", this.#options.store.secret);
    const digest = hmac.update(JSON.stringify([kind, caller.id, commandId])).digest("base64url");
    return idText(digest.slice(0, 22)) as T;
  }

  /**
   * Run a write with exactly one effect (rule C3). A repeat gets the first answer, so that it is not refused because of
   * later changes; its session is bound again, because the first answer may have been lost before it was bound.
   * @param plan makes the command. It runs only if there is no such answer, and may refuse
   * @param choice undefined: a session that the write creates is bound to no connection
   * @throws AppError for a refusal, with its facts, also if it is the first answer; `idempotency_mismatch`;
   *   `connection_not_found`; `busy` and `unavailable` carry the key to repeat
   */
  async carryOut(identity: Identity, plan: () => Promise<Write>, choice?: ConnectionChoice): Promise<Accepted> {
    const before = await this.#findAnswer(identity);
    if (!before) return await this.#planAndSend(identity, plan, choice);
    if (choice) await this.#bindAgain(identity, before, choice);
    return before;
  }

  /** @throws AppError if the earlier answer was a refusal, or `idempotency_mismatch` */
  async #findAnswer({ caller, commandId, bodyHash, mayBeRepeat }: Identity): Promise<Accepted | undefined> {
    if (!mayBeRepeat) return undefined;
    const [receipt] = await this.#options.store.findReceipts([{ caller: caller.id, commandId }]);
    if (!receipt) return undefined;
    if (receipt.bodyHash !== bodyHash) throw new AppError("idempotency_mismatch");
    return accepted(JSON.parse(receipt.reply));
  }

  /** After its commit a write can no longer be refused. */
  async #planAndSend(identity: Identity, plan: () => Promise<Write>, choice?: ConnectionChoice): Promise<Accepted> {
    try {
      const write = await plan();
      const sessionId = choice && sessionCreatedBy(write.command);
      const connection = sessionId && (await this.#choose(identity, choice));
      return connection
        ? await this.#sendAndBind(write, identity, connection, sessionId)
        : await this.#send(write, identity);
    } catch (error) {
      // A concurrent request with the same key may have committed first and thereby caused this refusal.
      const answer = isRefusal(error) ? await this.#findAnswer(identity) : undefined;
      if (!answer) throw error;
      return answer;
    }
  }

  async #bindAgain(
    identity: Identity,
    { sessionId, sessionCreatedAt }: Accepted,
    choice: ConnectionChoice,
  ): Promise<void> {
    if (sessionId === undefined || sessionId !== (choice.newSessionId ?? sessionId)) return;
    const made = await this.#options.visibleTo(identity.caller).findLiving(sessionId);
    const chosen = made && (await this.#choose(identity, choice).catch(undefinedForRefusal));
    if (!chosen) return;
    const bound = { sessionId: made.sessionId, floorId: made.floorId, sessionCreatedAt };
    await this.#options.connections.bindMade(chosen.row, bound).catch(withKey(identity));
  }

  #choose({ caller }: Identity, { connectionId }: ConnectionChoice): Promise<ChosenConnection | undefined> {
    return this.#options.connections.forNewSession(connectionId, caller.ownerId);
  }

  /**
   * Run a write that bypasses the floors, with exactly one effect (rule C3). `write` stores its effect and the receipt
   * of its answer in one transaction; if the receipt's key exists, it stores neither.
   */
  async record<T extends object>(
    identity: Identity,
    write: (receiptOf: (answer: T) => Omit<Receipt, "floorId">) => Promise<T>,
  ): Promise<T> {
    const { caller, commandId, bodyHash } = identity;
    const repeated = async () => {
      const found = await this.#findAnswer(identity);
      if (!found) return undefined;
      const { ok: _, ...answer } = found;
      return answer as T;
    };
    const before = await repeated();
    if (before) return before;
    const receiptOf = (answer: T) => ({
      caller: caller.id,
      commandId,
      bodyHash,
      reply: JSON.stringify({ ok: true, ...answer }),
      at: this.#options.clock.now(),
    });
    try {
      return await write(receiptOf).catch(withKey(identity));
    } catch (error) {
      const answer = isRefusal(error) ? await repeated() : undefined;
      if (!answer) throw error;
      return answer;
    }
  }

  /** Reserve room first, so that binding cannot fail once the session exists. */
  async #sendAndBind(
    write: Write,
    identity: Identity,
    chosen: ChosenConnection,
    sessionId: SessionId,
  ): Promise<Accepted> {
    const { connections, clock, timeoutMs } = this.#options;
    const { row } = chosen;
    const isReserved = await connections.reserve(chosen, sessionId, clock.now() + 2 * timeoutMs);
    if (!isReserved) return await this.#send(write, identity);
    let answer: Accepted;
    try {
      answer = await this.#send(write, identity);
    } catch (error) {
      // If the outcome is unknown, keep the room until the reservation expires.
      if (isRefusal(error)) await connections.release(row, sessionId);
      throw error;
    }
    const bound = { sessionId, floorId: write.floorId, sessionCreatedAt: answer.sessionCreatedAt };
    await connections.bindMade(row, bound).catch(withKey(identity));
    return answer;
  }

  async #send({ floorId, command, ifSeq }: Write, identity: Identity): Promise<Accepted> {
    const { addresses, abandoned } = this.#options;
    const { caller, commandId, bodyHash, trace } = identity;
    if (isOf(BEGIN_TURN, command)) await abandoned.endFor(identity, command.sessionId);
    const actsFor = actingFor(caller);
    const timeoutAt = this.#timeoutAt();
    const envelope = { floorId, caller: caller.id, actsFor, commandId, bodyHash, timeoutAt, trace, ifSeq, command };
    flow.onHop?.("command", `${command.type} with the key ${commandId}`);
    const reply = await this.#options.send(envelope).catch(withKey(identity));
    if (reply.ok && command.type === "session.update" && command.settings.mode !== undefined)
      await abandoned.endFor(identity, command.sessionId);
    // A client may hang up and abort at once: its hanging up is seen by now.
    if (isOf(END_RUN, command)) abandoned.forgetFor(identity, command.sessionId);
    const sessionId = "sessionId" in command ? command.sessionId : undefined;
    const isGone = reply.ok ? command.type === "session.delete" : reply.code === "session_not_found";
    if (isGone && sessionId !== undefined) addresses.delete(sessionId);
    const answer = accepted(reply);
    const { session } = answer;
    if (session) addresses.set({ sessionId: session.id, floorId: session.floorId, ownerId: session.ownerId });
    return answer;
  }

  /** What the caller's request would get. It changes nothing, needs no key and leaves no receipt. */
  async preview(
    caller: Caller,
    floorId: FloorId,
    about: Omit<CommandOf<"floor.what_if">, "type" | "ownerId">,
    trace?: Trace,
  ): Promise<{ decision?: Decision | undefined; refused?: AppError }> {
    const ownerId = ownerOf(caller, userOf(floorId));
    const command = { type: "floor.what_if" as const, ...about, ownerId };
    const { decision, refused } = await this.#sendWithoutKey({ floorId, actsFor: actingFor(caller), trace, command });
    return { decision, ...(refused && { refused: errorOf(refused) }) };
  }

  /** Send a command that may be repeated without harm. It needs no key and leaves no receipt. */
  async sendRepeatable(caller: Caller, floorId: FloorId, command: Command, trace?: Trace): Promise<Accepted> {
    return this.#sendWithoutKey({ floorId, actsFor: actingFor(caller), trace, command });
  }

  async #sendWithoutKey(about: Pick<Envelope, "floorId" | "actsFor" | "trace" | "command">): Promise<Accepted> {
    const { newId, send } = this.#options;
    return accepted(await send({ ...about, commandId: newId(), bodyHash: "", timeoutAt: this.#timeoutAt() }));
  }

  #timeoutAt(): number {
    return this.#options.clock.now() + this.#options.timeoutMs;
  }

  /** The position in the session's log at which this answer was committed. */
  positionOf({ seq, sessionCreatedAt }: Pick<Accepted, "seq" | "sessionCreatedAt">): { position?: string } {
    if (seq === undefined) return {};
    return {
      position: logPosition(
        this.#options.store.epoch,
        seq,
        sessionCreatedAt === undefined ? undefined : incarnationOf(sessionCreatedAt),
      ),
    };
  }
}

/** Commands by which a caller asks a session for something else than before. */
const BEGIN_TURN = ["session.chat", "session.switch_agent"] as const;
/** Commands by which a caller ends what a session does. */
const END_RUN = ["session.abort", "session.archive", "session.stop", "session.delete"] as const;

const isOf = <T extends Command["type"]>(types: readonly T[], command: Command): command is CommandOf<T> =>
  (types as readonly string[]).includes(command.type);

/** The owner whose sessions a caller's commands may change; undefined: all. */
const actingFor = ({ isOperator, ownerId }: Caller) => (isOperator ? undefined : ownerId);

/** Adds the key to errors of which it is unknown whether the write had its effect: a repeat with it has one. */
const withKey =
  ({ commandId }: Identity) =>
  (error: unknown): never => {
    if (!(error instanceof AppError) || isRefusal(error)) throw error;
    const { code, message, facts } = error;
    throw new AppError(code, message, { facts: { ...facts, commandId }, cause: error });
  };

/**
 * Whether the write had no effect. Only a refusal by the floor has a receipt; any other repeat is decided again (rule
 * C3).
 */
export function isRefusal(error: unknown): boolean {
  return error instanceof AppError && !["busy", "unavailable", "internal"].includes(error.code);
}

function undefinedForRefusal(error: unknown): undefined {
  if (!isRefusal(error)) throw error;
}

function accepted(reply: Reply): Accepted {
  if (reply.ok) return reply;
  throw errorOf(reply);
}

const errorOf = ({ code, message, facts }: NonNullable<Accepted["refused"]>): AppError =>
  new AppError(code, message, facts ? { facts } : {});
