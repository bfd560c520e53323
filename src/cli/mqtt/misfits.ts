/** Counts messages that are left alone, and says so once a minute, however many there are. */

const SAY_EVERY_MS = 60_000;
/** Topics of which the newest one is named. */
const MAX_SHOWN = 200;

const WHY: Readonly<Record<string, string>> = {
  no_json: "no JSON",
  no_value: "no value at the path",
  wrong_type: "a value of another type",
  too_long: "longer than 64 KiB",
  no_volume: "no volume of its scale",
  too_many: "more messages than can be answered",
};

export class Misfits {
  readonly #say: (line: string) => void;
  readonly #now: () => number;
  #counts = new Map<string, { count: number; topic: string }>();
  #saidAt = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(say: (line: string) => void, now: () => number = () => performance.now()) {
    this.#say = say;
    this.#now = now;
  }

  note(reason: string, topic: string): void {
    const { count } = this.#counts.get(reason) ?? { count: 0 };
    this.#counts.set(reason, { count: count + 1, topic });
    if (this.#timer) return;
    const waitMs = Math.max(0, this.#saidAt + SAY_EVERY_MS - this.#now());
    this.#timer = setTimeout(() => this.#tell(), waitMs).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #tell(): void {
    this.#timer = undefined;
    this.#saidAt = this.#now();
    for (const [reason, { count, topic }] of this.#counts) {
      const messages = count === 1 ? "1 message was" : `${count} messages were`;
      this.#say(`${messages} left alone, the last one in ${topic.slice(0, MAX_SHOWN)}: ${WHY[reason] ?? reason}`);
    }
    this.#counts = new Map();
  }
}
