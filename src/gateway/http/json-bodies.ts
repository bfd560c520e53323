import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BOUNDS } from "../../config/bounds.ts";
import { AppError } from "../../protocol/errors.ts";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { ByteBudget, type Loan } from "./byte-budget.ts";
import { ConversationCut, type KeptBytes } from "./conversation-cut.ts";
import { networkOf } from "./network-address.ts";
import { hasBody } from "./request-head.ts";
import type { LoopPace } from "./sockets/loop-pace.ts";
import type { Sockets } from "./sockets/sockets.ts";

/** Smallest average size of a body's chunks, in bytes. Each chunk costs work, however small it is. */
const PIECE_BYTES = 256;
/** Every body may arrive in this many chunks, so that small bodies leave room for slow networks. */
const FREE_PIECES = 8_192;
/** The first buffer of a body that does not arrive whole, in bytes. */
const FIRST_BYTES = 4_096;
/**
 * Values in a body, nested ones included. A message has about thirty. Schemas check each value and report each fault.
 */
const MAX_VALUES = 1_024;
/** The same for a whole conversation, of which the schemas check little but its last message. */
const MAX_CONVERSATION_VALUES = 65_536;

/** How deep a body may be nested: several times what an agent may send, which a conversation creates back. */
const MAX_BODY_DEPTH = 512;

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];
const SPACE = 0x20;

/** The error for a body that is too large, which says what would fit. */
const tooLarge = (maxBytes: number, isConversation: boolean) =>
  new AppError(
    "too_large",
    isConversation
      ? `The last message has at most ${maxBytes} bytes, with its images.`
      : `A request has at most ${maxBytes} bytes.`,
  );

const NO_ROOM = "Too many large requests are arriving; repeat with the same key.";

const ENCODED = "A body must not have a Content-Encoding: send it as it is.";

/** The body that a request announces. */
export interface BodyArrival {
  /** The node's memory that the body occupies until its request is answered. */
  loan: Loan;
  response: ServerResponse;
  /** Whether the client sends the body: false for one that waits until it is asked for it. */
  isInvited: boolean;
  /** The rest of the body is dropped. */
  isFinished: boolean;
}

export interface BodyOptions {
  /** The largest body. */
  maxBytes: number;
  pace: LoopPace;
  sockets: Pick<Sockets, "endAfterAnswer">;
}

/**
 * Accept JSON bodies only, in bounded memory for the node and for each address. A body is read after the `onRequest`
 * hooks have admitted the request. A write without a body is treated like one with an empty object. A route that takes
 * lines of JSON gets them as a stream, which it bounds itself; a route that takes YAML gets its bytes.
 */
export function acceptJsonOnly(app: FastifyInstance, options: BodyOptions): void {
  const { maxBytes, pace } = options;
  const parse = app.getDefaultJsonParser("error", "error");
  const { bodyBytes: node, addressBodyBytes, freeBodyBytes: free } = BOUNDS;
  const largest = ConversationCut.maxKept(maxBytes);
  const budget = new ByteBudget({ node, address: Math.max(addressBodyBytes, largest), free });

  app.decorateRequest("arrival", undefined);
  app.decorateRequest("isConversationCut", false);
  app.addHook("onRequest", (request, reply, done) => {
    if (hasBody(request)) {
      const loan = budget.open(() => networkOf(request.ip));
      const isInvited = request.headers.expect === undefined || request.raw.httpVersion === "1.0";
      request.arrival = { loan, response: reply.raw, isInvited, isFinished: false };
      reply.raw.once("close", () => loan.close());
    }
    done();
  });
  app.removeAllContentTypeParsers();
  const readers: BodyReaders = { pace, maxBytes, largest };
  app.addContentTypeParser("application/json", (request, payload, done) => {
    readBody(request, payload, readers, (failure, body) => {
      if (failure || !body || body.length === 0) return done(failure ?? null, undefined);
      const maxValues = request.routeOptions.config.conversation ? MAX_CONVERSATION_VALUES : MAX_VALUES;
      if (hasMoreValues(body.bytes, maxValues)) {
        return done(new AppError("too_large", `The body has more than ${maxValues} values.`));
      }
      // Otherwise what is no UTF-8 would be kept as other characters than those that were sent.
      if (!isUtf8(body.bytes)) return done(new AppError("bad_request", "The body is not UTF-8 text."));
      const text = body.bytes.toString();
      body.free();
      request.arrival!.loan.keep(body.length);
      void parse(request, text, (error: Error | null, value: unknown) => {
        if (!error && isTooDeep(value, MAX_BODY_DEPTH)) {
          return done(new AppError("too_large", `The body is nested more than ${MAX_BODY_DEPTH} levels deep.`));
        }
        done(error, value);
      });
    });
  });
  app.addContentTypeParser("application/yaml", (request, payload, done) => {
    if (!request.routeOptions.config.acceptsYaml) {
      return done(new AppError("bad_request", "Content-Type: application/json"));
    }
    readBody(request, payload, { ...readers, maxBytes: Math.min(maxBytes, BOUNDS.catalogBytes) }, (failure, body) => {
      done(failure ?? null, failure ? undefined : Buffer.from(body?.bytes ?? ""));
      body?.free();
    });
  });
  app.addContentTypeParser("application/x-ndjson", (request, payload, done) => {
    if (!request.routeOptions.config.acceptsLines) {
      return done(new AppError("bad_request", "Content-Type: application/json"));
    }
    if (isEncoded(request)) return done(new AppError("bad_request", ENCODED));
    if (declaredLength(request) > BOUNDS.importBytes) return done(new AppError("too_large"));
    done(null, payload);
  });
  app.addHook("preValidation", (request, reply, done) => {
    // A read, which may become an event stream, needs no body.
    if (request.method === "GET") finishBody(request, reply, options);
    else if (request.body === undefined) request.body = {};
    done();
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    finishBody(request, reply, options);
    done(null, payload);
  });
}

interface BodyReaders {
  pace: LoopPace;
  /** The largest body, and the largest that a conversation keeps. */
  maxBytes: number;
  largest: number;
}

/** Read a whole body, as far as its route may take it. `done` gets no body if the request has none. */
function readBody(
  request: FastifyRequest,
  payload: IncomingMessage,
  { pace, maxBytes, largest }: BodyReaders,
  done: (failure: AppError | undefined, body?: BodyText) => void,
): void {
  if (isEncoded(request)) return done(new AppError("bad_request", ENCODED));
  const declared = declaredLength(request);
  const { conversation } = request.routeOptions.config;
  const arriving = conversation ? BOUNDS.conversationBytes : maxBytes;
  if (declared > arriving) return done(tooLarge(arriving, false));
  if (!request.arrival) return done(undefined);
  const { loan, response } = request.arrival;
  inviteBody(request.arrival);
  const intake = new Intake(arriving);
  const body = new BodyText(declared, conversation ? largest : maxBytes, loan);
  const cut = conversation && new ConversationCut(conversation, maxBytes, body);
  const finish = (failure?: AppError) => {
    payload.off("data", add).off("end", end).off("error", fail);
    request.isConversationCut = cut?.isCut ?? false;
    done(failure, failure ? undefined : body);
  };
  const onPiece = pace.body(payload);
  const add = (piece: Buffer) => {
    if (!intake.add(piece)) return finish(tooLarge(arriving, false));
    if (cut) cut.add(piece);
    else body.add(piece);
    if (cut?.exceedsLimit) return finish(tooLarge(maxBytes, true));
    if (!body.owns(piece)) releasePiece(piece);
    onPiece(piece);
  };
  // A refusal for lack of room waits for the end, because a client that is still sending may not read its answer.
  const end = () => finish(body.hasRoom ? undefined : new AppError("busy", NO_ROOM));
  const fail = () => finish(new AppError("bad_request"));
  payload.on("data", add).on("end", end).on("error", fail);
  response.once("close", () => body.free());
}

/**
 * Whether a JSON text has more than `max` values, nested ones included. It only reads bytes: parsing a body of a
 * hundred thousand values first would take many times its size. For a text that is not JSON the answer means nothing.
 */
export function hasMoreValues(json: Uint8Array, max: number): boolean {
  // A value takes at least a digit and a comma.
  if (json.length < max * 2) return false;
  let count = 1;
  let isOpened = false;
  for (let at = 0; at < json.length && count <= max; at++) {
    const byte = json[at]!;
    if (byte <= SPACE) continue;
    // The first value of an array or object has no comma before it.
    if (isOpened && byte !== CLOSE_BRACKET && byte !== CLOSE_BRACE) count++;
    isOpened = byte === OPEN_BRACKET || byte === OPEN_BRACE;
    if (byte === QUOTE) at = endOfString(json, at);
    else if (byte === COMMA) count++;
  }
  return count > max;
}

/** The offset of the quote that ends the string; the length of the text if none does. */
function endOfString(json: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** Ask for the body of a client that waits until its request is admitted. A client of HTTP/1.0 sends it at once. */
export function inviteBody(arrival: BodyArrival): void {
  if (!arrival.isInvited) arrival.response.writeContinue();
  arrival.isInvited = true;
}

/** How much of a body has arrived, and whether it exceeds a limit. */
class Intake {
  readonly #maxBytes: number;
  #bytes = 0;
  #pieces = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @returns false if the body is too large or arrives in too many chunks */
  add(piece: Buffer): boolean {
    this.#bytes += piece.length;
    this.#pieces += 1;
    return this.#bytes <= this.#maxBytes && this.#pieces <= FREE_PIECES + this.#bytes / PIECE_BYTES;
  }
}

/** A body as it arrives, in one growing buffer. A list of chunks would cost hundreds of bytes for each. */
class BodyText implements KeptBytes {
  readonly #declared: number;
  readonly #maxBytes: number;
  readonly #loan: Loan;
  /** Owned by this body, unless the body arrived in one piece: then it is part of the socket's buffer. */
  #buffer: Buffer<ArrayBuffer> | undefined;
  #isWhole = false;
  length = 0;
  /** False after the budget had no room for the body. The rest is counted and dropped. */
  hasRoom = true;

  /** @param declared the body's length by its head; NaN if unknown */
  constructor(declared: number, maxBytes: number, loan: Loan) {
    this.#declared = declared;
    this.#maxBytes = maxBytes;
    this.#loan = loan;
  }

  /** Add a chunk, without a copy if it is all of the body. */
  add(piece: Buffer): void {
    this.#isWhole = this.length === 0 && piece.length === this.#declared;
    if (!this.#isWhole) return this.append(piece);
    this.#buffer = piece as Buffer<ArrayBuffer>;
    this.length = piece.length;
  }

  append(piece: Buffer): void {
    if (!this.hasRoom || !this.#reserve(this.length + piece.length)) return;
    piece.copy(this.#buffer!, this.length);
    this.length += piece.length;
  }

  owns(piece: Buffer): boolean {
    return piece === this.#buffer;
  }

  get bytes(): Buffer {
    return this.from(0);
  }

  from(offset: number): Buffer {
    return this.#buffer?.subarray(offset, this.length) ?? Buffer.alloc(0);
  }

  cutTo(length: number): void {
    this.length = Math.min(length, this.length);
  }

  cutOut(from: number, to: number): void {
    this.#buffer?.copyWithin(from, to, this.length);
    this.cutTo(this.length - (to - from));
  }

  /**
   * Return the memory at once. Megabytes that wait for the garbage collector make it run less often, so that under load
   * the node would keep several times what the budget allows.
   */
  free(): void {
    if (!this.#isWhole) release(this.#buffer);
    this.#buffer = undefined;
  }

  /** Make room for this many bytes in total. */
  #reserve(length: number): boolean {
    const before = this.#buffer;
    if (before && length <= before.length) return true;
    const capacity = Math.min(this.#maxBytes, Math.max(length, (before?.length ?? 0) * 2, FIRST_BYTES));
    this.hasRoom = this.#loan.growTo(capacity);
    this.#buffer = this.hasRoom ? Buffer.allocUnsafeSlow(capacity) : undefined;
    if (this.#buffer) before?.copy(this.#buffer, 0, 0, this.length);
    else this.#loan.close();
    release(before);
    return this.hasRoom;
  }
}

/** A large piece has its own memory, which is free after the piece is copied or dropped. */
function releasePiece(piece: Buffer): void {
  const isOwn = piece.length >= FIRST_BYTES && piece.length === piece.buffer.byteLength;
  if (isOwn) release(piece as Buffer<ArrayBuffer>);
}

function release(buffer: Buffer<ArrayBuffer> | undefined): void {
  buffer?.buffer.transfer(0);
}

/**
 * If we answer before the whole body has arrived, read the rest or close. Otherwise the next request on this connection
 * waits behind it, and behind a proxy that request may be another client's. A body that announces at most the allowed
 * size is read to its end and dropped. For any other body the answer says that the connection closes, and at most that
 * size is read, so that a client that is still sending reads its answer. Call this before the answer's head is sent.
 */
export function finishBody(
  request: FastifyRequest,
  reply: FastifyReply,
  { maxBytes, pace, sockets }: BodyOptions,
): void {
  const { raw, arrival, headers } = request;
  const { socket } = raw;
  if (raw.complete || raw.destroyed || arrival?.isFinished || !hasBody(request)) return;
  if (arrival) arrival.isFinished = true;
  const willCome = arrival?.isInvited ?? headers.expect === undefined;
  if (!willCome || !(declaredLength(request) <= maxBytes) || !reply.raw.shouldKeepAlive) {
    void reply.header("connection", "close");
    sockets.endAfterAnswer(reply.raw);
  }
  const intake = new Intake(maxBytes);
  const onPiece = pace.body(raw);
  raw.on("data", (piece: Buffer) => {
    if (!intake.add(piece)) return void socket.destroy();
    onPiece(piece);
  });
  raw.on("error", () => {});
  raw.resume();
}

/** The body's length by its head; NaN if it is not declared. */
const declaredLength = ({ headers }: FastifyRequest): number => Number(headers["content-length"] ?? Number.NaN);

/** Whether the body is compressed. Nothing here expands it: a few bytes may stand for megabytes. */
function isEncoded({ headers: { "content-encoding": coding } }: FastifyRequest): boolean {
  return coding !== undefined && coding.trim().toLowerCase() !== "identity";
}
