/** The session bus of D-Bus, as far as players need it. The library is loaded by `SessionBus.open` alone. */

/** How long a call may take, in ms: a player that is stopped answers nothing. */
const CALL_MS = 5_000;
/** The bus itself, as the sender of its signals. */
export const DESTINATION = "org.freedesktop.DBus";
const BUS = { destination: DESTINATION, path: "/org/freedesktop/DBus", interface: DESTINATION } as const;

/** A method and its arguments. `signature`: the types of `body`, as D-Bus writes them. */
export interface BusCall {
  destination: string;
  path: string;
  interface: string;
  member: string;
  signature?: string;
  body?: unknown[];
}

/** A signal. `sender` is the unique name of the connection that sent it. */
export interface BusSignal {
  sender: string;
  path: string;
  interface: string;
  member: string;
  /** The types of `body`: whatever program is on the bus may send any. */
  signature: string;
  body: unknown[];
}

const PLAYERS_NEED =
  "interlock players needs the package @jellybrick/dbus-next: npm install @jellybrick/dbus-next@0.11.3";

export class SessionBus {
  readonly #bus: import("@jellybrick/dbus-next").MessageBus;
  readonly #message: typeof import("@jellybrick/dbus-next").Message;
  /** Resolves when the connection ends, however. */
  readonly lost: Promise<void>;

  private constructor(
    bus: import("@jellybrick/dbus-next").MessageBus,
    message: typeof import("@jellybrick/dbus-next").Message,
    lost: Promise<void>,
  ) {
    this.#bus = bus;
    this.#message = message;
    this.lost = lost;
  }

  /**
   * Connect to the user's session bus (`DBUS_SESSION_BUS_ADDRESS`).
   * @param onSignal called with every signal that was subscribed to, in the order in which they arrive
   * @throws Error with a sentence if the library is not installed, or there is no bus
   */
  static async open(onSignal: (signal: BusSignal) => void): Promise<SessionBus> {
    const dbus = await import("@jellybrick/dbus-next").catch((cause: unknown) => {
      throw new Error(PLAYERS_NEED, { cause });
    });
    const connected = Promise.withResolvers<void>();
    const lost = Promise.withResolvers<void>();
    const fail = (error: Error) => {
      connected.reject(new Error(`the session bus cannot be reached: ${error.message}`, { cause: error }));
      lost.resolve();
    };
    let bus: import("@jellybrick/dbus-next").MessageBus;
    try {
      bus = dbus.sessionBus();
    } catch (error) {
      throw new Error(`the session bus cannot be reached: ${(error as Error).message}`, { cause: error });
    }
    const emitter = bus as unknown as NodeJS.EventEmitter & { _connection?: { stream?: NodeJS.EventEmitter } };
    emitter.on("error", fail);
    emitter.on("connect", () => {
      // The library reports errors of its socket, but not its end.
      emitter._connection?.stream?.on("close", () => fail(new Error("the connection was closed")));
      connected.resolve();
    });
    bus.on("message", (message) => {
      if (message.type !== dbus.MessageType.SIGNAL) return;
      const { sender, path, interface: name, member, signature, body } = message;
      const named = { sender: sender ?? "", path: path ?? "", interface: name ?? "", member: member ?? "" };
      onSignal({ ...named, signature: signature ?? "", body });
    });
    await connected.promise;
    return new SessionBus(bus, dbus.Message, lost.promise);
  }

  /** @throws Error if the callee refuses, leaves, or does not answer within 5 s */
  async call(call: BusCall): Promise<unknown[]> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`${call.member} was not answered`)), CALL_MS);
    try {
      return await Promise.race([this.ask(call), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The same, however late the answer is. @throws Error if the callee refuses or leaves */
  async ask(call: BusCall): Promise<unknown[]> {
    const gone = this.lost.then(() => {
      throw new Error("the session bus is gone");
    });
    gone.catch(() => {});
    const answer = await Promise.race([this.#bus.call(new this.#message(call)), gone]);
    return answer?.body ?? [];
  }

  /** Receive the signals that a rule of D-Bus matches. */
  async subscribe(rule: string): Promise<void> {
    await this.call({ ...BUS, member: "AddMatch", signature: "s", body: [rule] });
  }

  async names(): Promise<string[]> {
    return (await this.call({ ...BUS, member: "ListNames" }))[0] as string[];
  }

  /** The unique name of the connection that owns a name; undefined if no connection does. */
  async ownerOf(name: string): Promise<string | undefined> {
    return await this.call({ ...BUS, member: "GetNameOwner", signature: "s", body: [name] }).then(
      ([owner]) => owner as string,
      () => undefined,
    );
  }

  /** The process of a connection; undefined if the bus does not know it. */
  async processOf(owner: string): Promise<number | undefined> {
    const call = { ...BUS, member: "GetConnectionUnixProcessID", signature: "s", body: [owner] };
    return await this.call(call).then(
      ([pid]) => pid as number,
      () => undefined,
    );
  }

  /** Own a name until the connection ends. @returns whether it is free; a connection that has it keeps it */
  async own(name: string): Promise<boolean> {
    const DO_NOT_QUEUE = 4;
    const [answer] = await this.call({ ...BUS, member: "RequestName", signature: "su", body: [name, DO_NOT_QUEUE] });
    return answer === 1;
  }

  close(): void {
    this.#bus.disconnect();
  }
}
