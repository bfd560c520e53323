import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { makeHouse } from "../../support/child-server.ts";
import { copyingSuite } from "../../support/copying-nodes.ts";
import { KeptLog, StandingClock } from "../../support/sqlite-place.ts";

copyingSuite("a node", ["begins", "is almost done"], async () => {
  const house = await makeHouse({ agents: [{ name: "general" }] });
  let node = await house.start();
  const db = new DatabaseSync(house.file, { readOnly: true });
  onTestFinished(() => db.close());
  const count = (sql: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${sql}`).get()!["n"]);
  return {
    copying: node,
    staged: () => count("messages WHERE session_key IN (SELECT session_key FROM sessions WHERE state = 'staged')"),
    async kill() {
      await node.kill();
      node = await house.start();
      return node;
    },
    async openStore() {
      await node.kill();
      return await openSqliteStore({ file: house.file, clock: new StandingClock(), log: new KeptLog() });
    },
    rows: async () => ({
      messages: count("messages"),
      staged: count("sessions WHERE state = 'staged'"),
      images: count("blobs"),
    }),
  };
});
