import { fstatSync, writeSync } from "node:fs";
import { visibleJson } from "../shared/text.ts";

/** Bytes that may wait for the reader of a pipe; further lines are dropped. */
const MAX_WAITING_BYTES = 1_048_576;
const FD = { stdout: 1, stderr: 2 };

/**
 * Writes lines to stdout or stderr without ever stopping the process, even if the disk is full, or a pipe is closed or
 * not read. A line that cannot be written is dropped and counted.
 */
export class LineOutput {
  readonly #name: "stdout" | "stderr";
  readonly #resumed: ((dropped: number) => string) | undefined;
  /** The stream of a pipe or a socket, written without blocking; null: a file or a terminal, written synchronously. */
  #stream: NodeJS.WriteStream | null | undefined;
  #dropped = 0;
  /** Dropped lines that no `resumed` line has reported yet. */
  #unreported = 0;
  /** The last line was written in part, so the next one must start on a new line. */
  #isCut = false;

  /** `resumed` makes the line that reports dropped lines; it is written before the first line that succeeds again. */
  constructor(name: "stdout" | "stderr", resumed?: (dropped: number) => string) {
    this.#name = name;
    this.#resumed = resumed;
  }

  /** The number of lines dropped since the process began. */
  get dropped(): number {
    return this.#dropped;
  }

  /** From now on, no failed write to this output ends the process, not even one made by other code. */
  guard(): void {
    if (this.#stream !== undefined) return;
    const stream = process[this.#name];
    this.#stream = isPipe(FD[this.#name]) ? stream : null;
    stream.on("error", () => {
      if (this.#stream) this.#drop();
    });
  }

  /** @param text whole lines; characters that are not seen are written as escapes, which JSON reads as the same text */
  write(text: string): void {
    this.guard();
    const line = visibleJson(text);
    const unreported = this.#unreported;
    if (unreported > 0 && this.#resumed && this.#put(this.#resumed(unreported))) this.#unreported -= unreported;
    if (!this.#put(line)) this.#drop();
  }

  #drop(): void {
    this.#dropped += 1;
    this.#unreported += 1;
  }

  #put(line: string): boolean {
    if (!this.#stream) return this.#putNow(line);
    if (this.#stream.writableLength + line.length > MAX_WAITING_BYTES) return false;
    this.#stream.write(line);
    return true;
  }

  #putNow(line: string): boolean {
    const bytes = Buffer.from(this.#isCut ? `\n${line}` : line);
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(FD[this.#name], bytes, written);
      this.#isCut = false;
      return true;
    } catch {
      if (written > 0) this.#isCut = true;
      return false;
    }
  }
}

function isPipe(fd: number): boolean {
  try {
    const kind = fstatSync(fd);
    return kind.isFIFO() || kind.isSocket();
  } catch {
    // The descriptor is closed: every write will fail and be counted.
    return false;
  }
}
