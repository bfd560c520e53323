import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** A client that sends raw bytes to a real server, which HTTP libraries would refuse to send. */
export class RawSocket {
  readonly socket: Socket;
  /** All received bytes so far. */
  text = "";
  /** Resolves when the connection has ended, in any way. */
  readonly closed: Promise<void>;
  #onText: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => socket.once("close", () => resolve()));
    socket.once("close", () => this.#onText());
  }

  /** @param from the client's address: all of 127.0.0.0/8 are addresses of this machine */
  static async open(url: string, { from = "127.0.0.1", reads = true } = {}): Promise<RawSocket> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), localAddress: from });
    const raw = new RawSocket(socket);
    await Promise.race([once(socket, "connect"), raw.closed]);
    if (reads) {
      socket.setEncoding("latin1").on("data", (text: string) => {
        raw.text += text;
        raw.#onText();
      });
    }
    return raw;
  }

  /** @param piece sent unchanged; resolves when the system has taken it, or the connection has ended */
  async send(piece: string | Buffer): Promise<void> {
    if (this.socket.destroyed) return;
    const isTaken = this.socket.write(piece);
    if (!isTaken) await Promise.race([once(this.socket, "drain").catch(() => {}), this.closed]);
  }

  /** Resolves with the received text when it matches, or when the connection has ended. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text) && !this.socket.destroyed) {
      await new Promise<void>((resolve) => {
        this.#onText = resolve;
      });
    }
    return this.text;
  }

  /** Send the end of the connection's own side, as `nc -N` does, and resolve with all that still came. */
  async halfClose(): Promise<string> {
    this.socket.end();
    await this.closed;
    return this.text;
  }

  /** Resolves when the connection is closed on this side, with a reset. */
  async reset(): Promise<void> {
    this.socket.resetAndDestroy();
    await this.closed;
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** The head of a request on the wire. */
export function headOf(method: string, path: string, headers: Record<string, string | number> = {}): string {
  const lines = Object.entries({ Host: "127.0.0.1", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** A body of this size, in chunks of one byte each. */
export const oneByteChunks = (count: number): string => "1\r\na\r\n".repeat(count);
