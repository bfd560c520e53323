import { clearScreenDown, cursorTo, type Interface, moveCursor } from "node:readline";
import { type Paint, type Style, withTerminalCodes } from "./paint.ts";
import { type Output, printableLine, printableText } from "./printed-lines.ts";
import { wrapToWidth } from "./text-width.ts";

/** Where a chat is shown: whole lines, and texts that arrive in pieces. Both may come from anywhere. */
export interface ChatScreen {
  /** Show a line. */
  line(text: string, style?: Style): void;
  /**
   * Show the next piece of a text. Pieces of another text begin a new line.
   * @param label stands before the first piece
   */
  stream(label: string, piece: string): void;
  /** The next piece begins a new line. */
  endText(): void;
  /** Show the prompt and the typed text. Does nothing if the input is not a terminal. */
  prompt(prompt: string): void;
}

/** A screen without a prompt: output that is a file, a pipe, or read by a program. */
export class PlainScreen implements ChatScreen {
  readonly #out: Output;
  readonly #paint: Paint;
  #label: string | undefined;
  #endsLine = true;

  constructor(out: Output, paint: Paint) {
    this.#out = out;
    this.#paint = paint;
  }

  line(text: string, style?: Style): void {
    this.endText();
    const line = printableLine(text);
    this.#out.write(`${style ? withTerminalCodes(this.#paint(style, line)) : line}\n`);
  }

  stream(label: string, piece: string): void {
    if (this.#label !== label) {
      this.endText();
      this.#label = label;
      this.#out.write(printableLine(label));
    }
    const text = printableText(piece);
    if (text === "") return;
    this.#out.write(text);
    this.#endsLine = text.endsWith("\n");
  }

  endText(): void {
    if (this.#label !== undefined && !this.#endsLine) this.#out.write("\n");
    this.#label = undefined;
    this.#endsLine = true;
  }

  prompt(): void {}
}

/** What `readline` keeps of the rows that its prompt took. */
type Drawn = { prevRows?: number };

/** A terminal whose last line is the prompt: output appears above it, and the typed text remains. */
export class TerminalScreen implements ChatScreen {
  readonly #reader: Interface;
  readonly #out: NodeJS.WriteStream;
  readonly #paint: Paint;
  #label: string | undefined;
  /** The unfinished line above the prompt. */
  #partial = "";
  #isShown = false;

  constructor(reader: Interface, out: NodeJS.WriteStream, paint: Paint) {
    this.#reader = reader;
    this.#out = out;
    this.#paint = paint;
    // The typed line and the lines above it remain.
    reader.prependListener("line", () => {
      this.#partial = "";
      this.#isShown = false;
    });
  }

  line(text: string, style?: Style): void {
    const unfinished = this.#removePartial();
    const wrapped = wrapToWidth(printableLine(text), this.#width);
    this.#draw([
      ...unfinished,
      ...(style ? wrapped.map((line) => withTerminalCodes(this.#paint(style, line))) : wrapped),
    ]);
  }

  stream(label: string, piece: string): void {
    const unfinished = this.#label === label ? [] : this.#removePartial();
    if (this.#label !== label) this.#partial = printableLine(label);
    this.#label = label;
    const lines = `${this.#partial}${printableText(piece)}`.split("\n").flatMap((line) => {
      const wrapped = wrapToWidth(line, this.#width);
      return wrapped.length > 0 ? wrapped : [""];
    });
    this.#partial = lines.pop()!;
    this.#draw([...unfinished, ...lines]);
  }

  endText(): void {
    const unfinished = this.#removePartial();
    if (unfinished.length > 0) this.#draw(unfinished);
  }

  prompt(prompt: string): void {
    this.#reader.setPrompt(printableLine(prompt));
    this.#draw([]);
  }

  get #width(): number {
    return Math.max(20, (this.#out.columns || 80) - 1);
  }

  #removePartial(): string[] {
    const partial = this.#partial;
    this.#partial = "";
    this.#label = undefined;
    return partial === "" ? [] : [partial];
  }

  /** Draw finished lines, the unfinished one and the prompt, over the unfinished line and the prompt of before. */
  #draw(lines: readonly string[]): void {
    const { rows } = this.#reader.getCursorPos();
    moveCursor(this.#out, 0, -(rows + (this.#isShown ? 1 : 0)));
    cursorTo(this.#out, 0);
    clearScreenDown(this.#out);
    this.#isShown = this.#partial !== "";
    for (const line of this.#isShown ? [...lines, this.#partial] : lines) this.#out.write(`${line}\n`);
    // The prompt begins here: nothing above it is to be drawn again.
    (this.#reader as Drawn).prevRows = 0;
    this.#reader.prompt(true);
  }
}
