/** What a door reads of the list of messages in its body. */
export interface KeptConversation {
  /** The field of the body with the list. */
  list: string;
}

/** The bytes that are kept of a body. */
export interface KeptBytes {
  readonly length: number;
  /** The bytes from an offset on, valid until the next change. */
  from(offset: number): Buffer;
  append(piece: Buffer): void;
  /** Keep only the first bytes. */
  cutTo(length: number): void;
  /** Leave out the bytes between two offsets. */
  cutOut(from: number, to: number): void;
}

/**
 * Earlier messages that are kept: bytes, which is more than a door sends on with a message, and their number. The
 * oldest ones are left out, at first at twice these limits, so that each byte is moved a few times at most.
 */
const EARLIER_BYTES = 1_048_576;
const EARLIER_MESSAGES = 1_024;
/** Longer strings of earlier messages that begin as `data:` URIs are left out: images of turns that are over. */
const SHORT_BYTES = 1_024;
const DATA = Buffer.from("data:");
const NOTHING = Buffer.alloc(0);

/** The depth of the body's fields, and of the elements of one of them. */
const FIELDS = 1;
const ELEMENTS = 2;

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Cuts a conversation, as it arrives, to what a door reads of it: all of the last message, and of the earlier ones the
 * texts. What is kept depends on the bytes only, not on the pieces in which they arrive. A text that is not
 * JSON is cut somewhere.
 */
export class ConversationCut {
  readonly #list: Buffer;
  readonly #maxBytes: number;
  readonly #kept: KeptBytes;
  #piece: Buffer = NOTHING;
  /** The first byte of the piece that is neither kept nor dropped. */
  #from = 0;
  #depth = 0;
  #isString = false;
  #isEscaped = false;
  /**
   * The offset of the string under way, and whether the last string of the body's own depth is the name of the list.
   */
  #stringAt = 0;
  #isNamed = false;
  #isInList = false;
  /** The bytes outside of the list. */
  #outside = 0;
  /** The offset at which the message under way begins; the message is left out if it is too large. */
  #messageAt = 0;
  #isTooLarge = false;
  /** Where the earlier messages begin in the kept bytes, oldest first. */
  #earlier: number[] = [];
  /** The long `data:` URIs of the message under way. */
  #images: { from: number; to: number }[] = [];
  /** Whether the last message, or what is outside of the list, exceeds the limit. */
  exceedsLimit = false;
  /** Whether earlier messages were left out. */
  isCut = false;

  /** @param maxBytes the largest body without its earlier messages */
  constructor({ list }: KeptConversation, maxBytes: number, kept: KeptBytes) {
    this.#list = Buffer.from(`"${list}`);
    this.#maxBytes = maxBytes;
    this.#kept = kept;
  }

  /** The maximum number of bytes that are kept at once. */
  static maxKept(maxBytes: number): number {
    return maxBytes + 2 * EARLIER_BYTES;
  }

  add(piece: Buffer): void {
    this.#piece = piece;
    this.#from = 0;
    for (let at = 0; at < piece.length && !this.exceedsLimit; at++) {
      if (this.#isString) {
        at = this.#endOfString(at);
        if (at < piece.length) this.#endString(at);
      } else if (piece[at] === QUOTE) {
        this.#isString = true;
        this.#stringAt = this.#offsetOf(at);
      } else this.#handleMark(piece[at]!, at);
    }
    this.#keepTo(piece.length);
    this.#piece = NOTHING;
  }

  /** Where the quote of the string under way is in the piece; the piece's length if it is not there. */
  #endOfString(start: number): number {
    const piece = this.#piece;
    let at = start;
    if (this.#isEscaped) at += 1;
    while (at < piece.length && piece[at] !== QUOTE) at += piece[at] === BACKSLASH ? 2 : 1;
    this.#isEscaped = at > piece.length;
    return at;
  }

  #endString(at: number): void {
    this.#isString = false;
    const isName = this.#depth === FIELDS;
    const isLong = this.#isInList && this.#offsetOf(at) - this.#stringAt > SHORT_BYTES;
    if (isName || isLong) this.#keepTo(at);
    if (isName) this.#isNamed = this.#kept.from(this.#stringAt).equals(this.#list);
    else if (isLong && !this.#isTooLarge) this.#noteImage();
  }

  #noteImage(): void {
    const from = this.#stringAt + 1;
    const text = this.#kept.from(from);
    if (text.subarray(0, DATA.length).equals(DATA)) this.#images.push({ from, to: from + text.length });
  }

  #handleMark(byte: number, at: number): void {
    switch (byte) {
      case OPEN_BRACE:
      case OPEN_BRACKET:
        this.#depth += 1;
        if (byte === OPEN_BRACKET && this.#depth === ELEMENTS && this.#isNamed) this.#beginList(at);
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        this.#depth -= 1;
        if (this.#isInList && this.#depth < ELEMENTS) this.#endList(at);
        break;
      case COMMA:
        if (this.#isInList && this.#depth === ELEMENTS) this.#endMessage(at);
    }
  }

  /** The offset in the kept bytes that a byte of the piece will have. */
  #offsetOf(at: number): number {
    return this.#kept.length + at - this.#from;
  }

  #keepTo(end: number): void {
    this.#keep(this.#piece.subarray(this.#from, end));
    this.#from = end;
  }

  #keep(bytes: Buffer): void {
    if (this.#isTooLarge || this.exceedsLimit) return;
    if (!this.#isInList) {
      this.#outside += bytes.length;
      this.exceedsLimit = this.#outside > this.#maxBytes;
    } else if (this.#outside + this.#kept.length - this.#messageAt + bytes.length > this.#maxBytes) {
      this.#isTooLarge = true;
      this.isCut = true;
      this.#kept.cutTo(this.#messageAt);
      this.#images = [];
    }
    if (!this.#isTooLarge && !this.exceedsLimit) this.#kept.append(bytes);
  }

  #beginList(at: number): void {
    this.#keepTo(at + 1);
    this.#isInList = true;
    this.#messageAt = this.#kept.length;
    this.#earlier = [];
    this.#images = [];
  }

  /** Another message follows. */
  #endMessage(at: number): void {
    this.#keepTo(at + 1);
    if (this.#isTooLarge) this.#isTooLarge = false;
    else this.#keepEarlier();
    this.#images = [];
    this.#messageAt = this.#kept.length;
  }

  #keepEarlier(): void {
    // From the last one, so that the offsets of the others stay.
    for (const { from, to } of this.#images.toReversed()) this.#kept.cutOut(from, to);
    this.#earlier.push(this.#messageAt);
    const end = this.#kept.length;
    const first = this.#earlier[0]!;
    if (end - first <= 2 * EARLIER_BYTES && this.#earlier.length <= 2 * EARLIER_MESSAGES) return;
    const newest = this.#earlier.slice(-EARLIER_MESSAGES).filter((from) => end - from <= EARLIER_BYTES);
    const cut = (newest[0] ?? end) - first;
    this.#kept.cutOut(first, first + cut);
    this.isCut ||= cut > 0;
    this.#earlier = newest.map((from) => from - cut);
  }

  #endList(at: number): void {
    this.#keepTo(at);
    if (this.#isTooLarge) this.exceedsLimit = true;
    this.#isInList = false;
    this.#isNamed = false;
  }
}
