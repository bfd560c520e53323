import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { endianness } from "node:os";
import { BOUNDS } from "../../config/bounds.ts";

/** Bytes that peers have not acknowledged although the kernel has sent them again, by `keyOf` a socket. */
export type Unanswered = ReadonlyMap<string, number>;

/** Linux's tables of sockets, for IPv4 and IPv6, and the digits of an address in them. */
const TABLES = [
  { file: "/proc/self/net/tcp", digits: 8 },
  { file: "/proc/self/net/tcp6", digits: 32 },
];
const ZERO = "0".charCodeAt(0);
const isLittle = endianness() === "LE";

/**
 * The sockets of this machine whose peers answer nothing. A peer that only does not read is left out, because its
 * system still answers. Empty where the kernel has no such tables.
 */
export async function readUnanswered(): Promise<Unanswered> {
  const found = new Map<string, number>();
  for (const { file, digits } of TABLES) {
    const table = await readFile(file).catch(() => Buffer.alloc(0));
    for (let at = table.indexOf("\n") + 1; at > 0 && at < table.length; ) {
      const end = table.indexOf("\n", at);
      if (end < 0) break;
      addRow(found, table, at, end, digits);
      at = end + 1;
    }
  }
  return found;
}

/**
 * A row is ` sl: local:port remote:port state sent:received timer:when repeats user probes …`, with numbers in
 * hexadecimal.
 */
function addRow(found: Map<string, number>, table: Buffer, from: number, to: number, digits: number): void {
  // Most sockets have nothing under way, and a busy node has thousands.
  const sent = table.indexOf(":", from) + 2 + 2 * digits + 15;
  let at = sent;
  while (at < sent + 8 && table[at] === ZERO) at += 1;
  if (at === sent + 8) return;
  const row = table.toString("latin1", from, to).trim().split(/\s+/);
  const [, local = "", remote = "", , queues = "", , repeats = "", , probes = ""] = row;
  // The first probe of a peer without room is answered, and the next one begins anew.
  if (Number.parseInt(repeats, 16) === 0 && Number(probes) < 2) return;
  const localPort = Number.parseInt(local.slice(-4), 16);
  const remotePort = Number.parseInt(remote.slice(-4), 16);
  const key = peerKeyOf({ localPort, remotePort, remoteAddress: addressOf(remote.slice(0, digits)) });
  found.set(key, Number.parseInt(queues, 16));
}

/** An address of 4 or 16 bytes, in words of the machine's byte order. */
function addressOf(hex: string): string {
  const bytes = Buffer.from(hex, "hex");
  if (isLittle) bytes.swap32();
  if (bytes.length === 4) return bytes.join(".");
  const groups = bytes.toString("hex").match(/.{4}/g)!;
  if (/^0{20}ffff/.test(bytes.toString("hex"))) return bytes.subarray(12).join(".");
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

type Ends = { [end in "localPort" | "remotePort" | "remoteAddress"]?: Socket[end] };

/** Names a socket by its ends. */
export function peerKeyOf({ localPort, remotePort, remoteAddress = "" }: Ends): string {
  return `${localPort} ${remotePort} ${remoteAddress.replace(/^::ffff:|%.*$/g, "")}`;
}

/** Remembers for how long peers have acknowledged nothing, from one look at the kernel's tables to the next. */
export class SilentPeers {
  /** By socket: bytes that its peer has acknowledged, and since when, in ms. Only of peers that answer nothing. */
  #silent = new WeakMap<Socket, { acknowledged: number; since: number }>();

  /** @returns the sockets whose peers have acknowledged nothing for `BOUNDS.silentMs`, although something was sent */
  look(sockets: Iterable<Socket>, unanswered: Unanswered, now: number): Socket[] {
    const before = this.#silent;
    const vanished: Socket[] = [];
    this.#silent = new WeakMap();
    if (unanswered.size === 0) return vanished;
    for (const socket of sockets) {
      const waiting = unanswered.get(peerKeyOf(socket));
      if (waiting === undefined) continue;
      const acknowledged = socket.bytesWritten - socket.writableLength - waiting;
      const known = before.get(socket);
      const since = known?.acknowledged === acknowledged ? known.since : now;
      this.#silent.set(socket, { acknowledged, since });
      if (now - since >= BOUNDS.silentMs) vanished.push(socket);
    }
    return vanished;
  }

  /** Since when the peer has been silent; undefined if it was not at the last look. */
  since(socket: Socket): number | undefined {
    return this.#silent.get(socket)?.since;
  }
}
