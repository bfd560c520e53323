import type { Socket } from "node:net";
import type { Clock, Timer } from "../../shared/ports/clock.ts";

/** How long a request may take to arrive completely, in ms. */
const ARRIVAL_MS = 30_000;
/** Connections of all programs of this worker, which share its file descriptors with everything else. */
const MAX_CONNECTIONS = 2_048;
const TOO_LATE = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/**
 * The connections of programs to their tools. A connection is closed if its next request does not arrive in time. If
 * there are too many, the connection that has waited longest is closed, but never one with a request under way.
 */
export class ToolConnections {
  readonly #clock: Clock;
  /**
   * By how many requests are under way; those that wait for a request have a timer, and stand in the order of waiting.
   */
  readonly #open = new Map<Socket, { requests: number; timer: Timer | undefined }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(socket: Socket): void {
    socket.once("close", () => {
      this.#open.get(socket)?.timer?.cancel();
      this.#open.delete(socket);
    });
    this.#wait(socket);
    if (this.#open.size <= MAX_CONNECTIONS) return;
    const longest = [...this.#open].find(([, { timer }]) => timer)?.[0];
    longest?.destroy();
  }

  /** A request has arrived completely. Call `end` when it is answered. */
  begin(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (!connection) return;
    connection.requests += 1;
    connection.timer?.cancel();
    connection.timer = undefined;
  }

  end(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (!connection) return;
    connection.requests -= 1;
    if (connection.requests === 0) this.#wait(socket);
  }

  #wait(socket: Socket): void {
    const timer = this.#clock.after(ARRIVAL_MS, () => {
      socket.write(TOO_LATE);
      socket.destroySoon();
    });
    this.#open.delete(socket);
    this.#open.set(socket, { requests: 0, timer });
  }
}
