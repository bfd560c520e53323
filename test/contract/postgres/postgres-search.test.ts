import fc from "fast-check";
import { expect, test } from "vitest";
import type { Store, StoredSessionQuery } from "../../../src/store/store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

/**
 * Few enough that texts and queries overlap; the marks of Hindi and Thai, the digits and the dots are difficult for
 * parsers.
 */
const PIECES = [
  ..."正在导航中國カナ한국",
  ...["jazz", "Café", "e\u0301", "1e5", "3.14", "x-1", "http://a.b/c", "नमस्ते", "สวัสดี", "İ", "ß", "Ω", "🎷", "'", "\\"],
  ...[" ", " ", " ", "\n", ":", "*", "&", "<->"],
];
const text = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join(""));

describeWith([POSTGRES], "search on PostgreSQL", (start) => {
  const server = serverOf(start);

  const find = async (store: Store, q: string) => {
    const query: StoredSessionQuery = { page: 0, pageSize: 100, includeArchived: true, q };
    const { sessions, total } = await store.listSessions(query);
    return [sessions.map(({ id }) => id).sort(), total];
  };

  test("a search on PostgreSQL finds what SQLite finds, in any script", async () => {
    const stores = [await openTemporaryStore(), await openNode(await makeDatabase(server()))];
    let session = 0;
    let hits = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(text, { minLength: 3, maxLength: 6 }),
        fc.array(text, { maxLength: 6 }),
        async (says, queries) => {
          const first = session;
          session += says.length;
          for (const store of stores) {
            const floor = new FloorWriter(store, `u:${first}`);
            await floor.write({
              sessions: says.map((title, n) => floor.session(`s${first + n}`, { title })),
              messages: says.map((content, n) => ({
                kind: "add" as const,
                message: makeMessage(`s${first + ((n + 1) % says.length)}`, "m", { content }),
              })),
            });
          }
          for (const q of [...queries, ...says.map((said) => said.slice(1, 4))]) {
            const [lite, postgres] = await Promise.all(stores.map((store) => find(store, q)));
            expect([q, postgres]).toEqual([q, lite]);
            if (lite![1] !== 0) hits += 1;
          }
        },
      ),
      { numRuns: 40, seed: 20 },
    );
    expect(hits).toBeGreaterThan(50);
  });

  test("a search on PostgreSQL finds single words at every place of a text of any length", async () => {
    const store = await openNode(await makeDatabase(server()));
    const floor = new FloorWriter(store);
    const han = Array.from({ length: 30_000 }, (_, n) => String.fromCodePoint(0x4e00 + (n % 20_000))).join("");
    const message = makeMessage("a", "m", { content: `${han} harbour` });
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }] });
    expect(await find(store, "harbour")).toEqual([["a"], 1]);
    expect(await find(store, han.slice(16_000, 16_040))).toEqual([["a"], 1]);
    expect(await find(store, `${han.slice(19_997, 19_999)} harbour`)).toEqual([["a"], 1]);
  });
});
