/** The streams of the sound server, PipeWire or PulseAudio, through `pactl`. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const run = promisify(execFile);

/** How long one call of `pactl` may take, in ms. */
const CALL_MS = 5_000;
/** The largest list of streams, in bytes: a stream takes some 2 KB. */
const MAX_LIST_BYTES = 16_777_216;
/** Changes come in bursts; the list is read once for each burst, this many ms after its first change. */
const BURST_MS = 20;
/** The pause before `pactl` is started again after the sound server has gone, in ms. */
const AGAIN_MS = 1_000;
/** How many generations of parents are looked at: a browser's tab is two processes below its window. */
const MAX_PARENTS = 8;

/** Each program that is called, and the package of Debian that has it. */
const PACKAGES: Readonly<Record<string, string>> = {
  pactl: "pulseaudio-utils",
  "pw-cli": "pipewire-bin",
  "pw-dump": "pipewire-bin",
};

/** One stream that plays, or could. */
export interface SoundStream {
  /** Its number on the sound server. It is not used again while the server runs. */
  readonly index: number;
  /** The number of the connection that it belongs to. */
  readonly client: string | undefined;
  /** Its process and that one's parents, nearest first; empty if the server does not know it. */
  readonly pids: readonly number[];
  /** It is paused by its own program. */
  readonly isCorked: boolean;
  /** Its node on PipeWire, by two numbers: `id` is used again, `serial` is not. */
  readonly node: SoundNode | undefined;
  /** One value for each channel, 65536 for 0 dB. */
  readonly volume: readonly number[];
  readonly role: string | undefined;
  readonly application: string | undefined;
  /** The name under which the sound server keeps the volume for the program's next stream. */
  readonly keptAs: string | undefined;
}

export interface SoundNode {
  readonly id: string;
  readonly serial: string;
}

interface ListedStream {
  index: number;
  client?: string;
  corked: boolean;
  volume?: Record<string, { value: number }>;
  properties: Record<string, string>;
}

/** Follows the streams of the sound server until it is closed. */
export class SoundStreams {
  readonly #onChange: (streams: readonly SoundStream[]) => void;
  /** The connections of the present streams. */
  #clients = new Set<string | undefined>();
  #watcher: ChildProcess | undefined;
  #burst: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;
  #isOld = false;
  #isClosed = false;

  private constructor(onChange: (streams: readonly SoundStream[]) => void) {
    this.#onChange = onChange;
  }

  /**
   * @param onChange called with all streams, at first and after each change
   * @throws Error with a sentence if a program is not installed, or no sound server answers
   */
  static async open(onChange: (streams: readonly SoundStream[]) => void): Promise<SoundStreams> {
    const streams = new SoundStreams(onChange);
    streams.#take(await listStreams());
    streams.#watch();
    return streams;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#burst);
    this.#watcher?.kill();
  }

  #watch(): void {
    const watcher = spawn("pactl", ["subscribe"], { stdio: ["ignore", "pipe", "ignore"] });
    this.#watcher = watcher;
    const again = () => {
      if (this.#isClosed || this.#watcher !== watcher) return;
      this.#watcher = undefined;
      setTimeout(() => this.#isClosed || this.#watch(), AGAIN_MS).unref();
    };
    watcher.on("error", again);
    watcher.on("exit", again);
    createInterface({ input: watcher.stdout! }).on("line", (line) => {
      const [, kind, index] = / (sink-input|client) #(\d+)/.exec(line) ?? [];
      // Each call of `pactl` is a client too: those without a stream do not count.
      if (kind === "sink-input" || (kind === "client" && this.#clients.has(index))) this.#note();
    });
    // What changed before the first line of a new watcher is read now.
    this.#note();
  }

  #note(): void {
    this.#isOld = true;
    if (this.#isReading) return;
    this.#burst ??= setTimeout(() => void this.#read(), BURST_MS);
  }

  async #read(): Promise<void> {
    this.#burst = undefined;
    this.#isReading = true;
    this.#isOld = false;
    try {
      const streams = await listStreams();
      if (!this.#isClosed) this.#take(streams);
    } catch {
      // The server is away; the next watcher reads again.
    } finally {
      this.#isReading = false;
    }
    if (this.#isOld && !this.#isClosed) this.#note();
  }

  #take(streams: readonly SoundStream[]): void {
    this.#clients = new Set(streams.map(({ client }) => client));
    this.#onChange(streams);
  }
}

/** @throws like `callSound` */
async function listStreams(): Promise<SoundStream[]> {
  const [listed, clients] = await Promise.all([list<ListedStream>("sink-inputs"), list<ListedClient>("clients")]);
  const processes = new Map(clients.map(({ index, properties }) => [String(index), processOf(properties)]));
  return await Promise.all(
    listed.map(async ({ index, client, corked, volume, properties }) => {
      const pid = processOf(properties) ?? processes.get(client ?? "");
      const { "object.id": id, "object.serial": serial } = properties;
      return {
        index,
        client,
        pids: pid === undefined ? [] : await withParents(pid),
        isCorked: corked,
        node: id !== undefined && serial !== undefined ? { id, serial } : undefined,
        volume: valuesOf(volume),
        role: properties["media.role"],
        application: properties["application.name"],
        keptAs: properties["module-stream-restore.id"],
      };
    }),
  );
}

/** The volume of one stream; undefined if it has ended. @throws like `callSound` */
export async function volumeOf(index: number): Promise<readonly number[] | undefined> {
  const stream = (await list<ListedStream>("sink-inputs")).find((each) => each.index === index);
  return stream && valuesOf(stream.volume);
}

const valuesOf = (volume: ListedStream["volume"]): number[] => Object.values(volume ?? {}).map(({ value }) => value);

interface ListedClient {
  index: number;
  properties: Record<string, string>;
}

async function list<T>(what: "sink-inputs" | "clients"): Promise<T[]> {
  return JSON.parse(await pactl(["-f", "json", "list", what])) as T[];
}

/**
 * Call a program of the sound server. @returns what it prints
 * @throws Error with a sentence if it is not installed, or no sound server answers
 */
export async function callSound(command: string, args: readonly string[]): Promise<string> {
  // Another language has another decimal point.
  const env = { ...process.env, LC_ALL: "C.UTF-8" };
  try {
    return (await run(command, [...args], { timeout: CALL_MS, maxBuffer: MAX_LIST_BYTES, env })).stdout;
  } catch (cause) {
    const isAbsent = (cause as NodeJS.ErrnoException).code === "ENOENT";
    const needs = `interlock players needs ${command}: apt install ${PACKAGES[command]}`;
    throw new Error(isAbsent ? needs : "no sound server answers: start PipeWire or PulseAudio", { cause });
  }
}

/** @throws like `callSound` */
export const pactl = (args: readonly string[]): Promise<string> => callSound("pactl", args);

/** PipeWire names the process of its own clients by another property. */
function processOf(properties: Record<string, string>): number | undefined {
  const pid = Number(properties["application.process.id"] ?? properties["pipewire.sec.pid"]);
  return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
}

/** A process and its parents: the tab of a browser is another process than its window. */
async function withParents(pid: number): Promise<number[]> {
  const pids: number[] = [];
  for (let next = pid; next > 1 && pids.length < MAX_PARENTS; ) {
    pids.push(next);
    const stat = await readFile(`/proc/${next}/stat`, "utf8").catch(() => "");
    next = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? 0);
  }
  return pids;
}
