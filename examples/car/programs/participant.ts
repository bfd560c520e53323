import { type Client, keepLease } from "../../../src/client/interlock-client.ts";

/** The sound of a program that takes part. */
export interface Sound {
  /** Play. @param level how much quieter than its own volume, in dB: 0 to -60 */
  play(level: number): void;
  /** Be silent, and keep the place. */
  pause(): void;
}

/**
 * One session on the driver's floor, for a program that makes its own sound. The program asks for the floor once, and
 * then follows the session's transitions. It renews the session's lease while it runs.
 */
export class Participant {
  readonly sessionId: string;
  /** Resolves when the session is archived or deleted. */
  readonly ended: Promise<void>;
  readonly #client: Client;

  private constructor(client: Client, sessionId: string, sound: Sound) {
    this.#client = client;
    this.sessionId = sessionId;
    this.ended = this.#obey(sound);
  }

  /**
   * Ask for the floor. A paused session of the same agent is resumed: its program died.
   *
   * @throws ClientError `rejected` if the floor is refused; its message names the reason
   */
  static async join(client: Client, agentId: string, userId: string, sound: Sound): Promise<Participant> {
    const { sessions } = await client.listSessions({ agentId, userId, state: "paused", pageSize: 1 });
    const known = sessions[0]?.id;
    if (known !== undefined) await client.resumeSession(known);
    const id = known ?? (await client.createSession({ agentId, userId, activate: true })).session.id;
    return new Participant(client, id, sound);
  }

  /** Archive the session. */
  async leave(): Promise<void> {
    await this.#client.archiveSession(this.sessionId);
    await this.ended;
  }

  async #obey(sound: Sound): Promise<void> {
    const lease = keepLease(this.#client, this.sessionId, true, { onLapsed: console.error });
    try {
      // Each round starts from the session's current state: at the start, and when the stream cannot continue.
      while (true) {
        const { session, position } = await this.#client.loadSession({ sessionId: this.sessionId });
        lease.note(session);
        if (!follow(sound, session.state, session.level)) return;
        if (!(await this.#follow(sound, position))) return;
      }
    } finally {
      lease.stop();
      sound.pause();
    }
  }

  /** @returns true if the stream was reset and the session must be read again */
  async #follow(sound: Sound, position: string): Promise<boolean> {
    for await (const event of this.#client.openSession(this.sessionId, { position })) {
      if (event.type === "reset") return true;
      if (event.type !== "session_transition") continue;
      const [state = ""] = event.data.to.split(".");
      if (!follow(sound, state, event.data.level)) return false;
    }
    return false;
  }
}

/** @returns false if the session has ended */
function follow(sound: Sound, state: string, level = 0): boolean {
  if (state === "active") sound.play(0);
  else if (state === "ducked") sound.play(level);
  else sound.pause();
  return state !== "archived" && state !== "deleted";
}
