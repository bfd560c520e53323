import type { Client } from "../../../src/client/client.ts";
import { SessionReader } from "../clients/session-reader.ts";
import { within } from "../runner/within.ts";
import type { ChildServer } from "./child-server.ts";

/** A session whose stream one reader follows at each node until the test ends. */
export class WatchedSession {
  readonly path = "/session/watched";
  readonly readers: readonly SessionReader[];

  private constructor(readers: readonly SessionReader[]) {
    this.readers = readers;
  }

  static async create(client: Client, nodes: readonly ChildServer[]): Promise<WatchedSession> {
    await client.createSession({ id: "watched", userId: "watcher" });
    return new WatchedSession(await Promise.all(nodes.map((node) => SessionReader.of(node, "watched"))));
  }

  /** Rename the session. Resolves when every reader has the new title, without a gap in its events. */
  async rename(client: Client): Promise<void> {
    await client.renameSession("watched", "still watched");
    for (const reader of this.readers) {
      const updated = reader.until(({ logs }) => logs.get("watched")?.at(-1)?.data.title === "still watched");
      await within("the new title", updated);
      reader.check();
    }
  }
}
