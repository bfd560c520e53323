import { z } from "zod";
import type { Bus, Subscription } from "../../bus/bus.ts";
import { keepListening } from "../../gateway/streams/keep-listening.ts";
import { readMessage, writeMessage } from "../../protocol/internal/bus-message.ts";
import { OpenCalls } from "../../shared/open-calls.ts";

/** A call that the node which has it is to cancel. */
const Cancellation = z.object({ scope: z.string(), id: z.union([z.string(), z.number()]) });
type Cancellation = z.infer<typeof Cancellation>;

/** Who made a call. */
export interface McpClient {
  /** Ids of calls are unique within it. */
  readonly scope: string;
  /** Whether the scope names one client, so that no other client can have calls in it at another node. */
  readonly isNamed: boolean;
}

/**
 * The longest scope and id that are sent to other nodes, in UTF-16 units. Clients choose both, and a message is
 * bounded.
 */
const MAX_ID_UNITS = 4_096;

/**
 * The calls of the MCP door on this node. A cancellation of a call that another node has is passed on to all nodes,
 * because each request of a client may reach another one.
 */
export class McpCalls {
  readonly #calls = new OpenCalls();
  readonly #bus: Bus;
  readonly #topic: string;
  #listening: Promise<Subscription> | undefined;

  constructor(bus: Bus, epoch: string) {
    this.#bus = bus;
    this.#topic = `${epoch}.mcp-cancellations`;
  }

  /** Add a call, as `OpenCalls.add` does. It can be cancelled at other nodes once the bus is subscribed to. */
  add({ scope }: McpClient, id: string | number, cancel: () => void): () => void {
    if (!this.#bus.isLocal) void this.#listen();
    return this.#calls.add(scope, id, cancel);
  }

  /** Cancel a call at this node, or else at the node that has it. Does nothing if there is none. */
  async cancel({ scope, isNamed }: McpClient, id: string | number): Promise<void> {
    if (this.#calls.cancel(scope, id) || !isNamed || this.#bus.isLocal) return;
    if (scope.length + String(id).length > MAX_ID_UNITS) return;
    await this.#bus.publish(this.#topic, writeMessage({ scope, id } satisfies Cancellation));
  }

  async #listen(): Promise<void> {
    // A cancellation that is lost while the bus is away is lost: the client's call ends with its own time.
    this.#listening ??= keepListening(this.#bus, this.#topic, (message) => this.#receive(message));
    await this.#listening.catch(() => {
      // The next call tries again.
      this.#listening = undefined;
    });
  }

  #receive(message: Uint8Array): void {
    const cancellation = readMessage(Cancellation, message);
    if (cancellation) this.#calls.cancel(cancellation.scope, cancellation.id);
  }
}
