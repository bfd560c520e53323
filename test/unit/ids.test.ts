import { expect, test } from "vitest";
import { newKey } from "../../src/cli/new-files.ts";
import { StagedHistory } from "../../src/copies/staged-history.ts";
import { readLast } from "../../src/doors/ui-chat/ui-request.ts";
import { IdempotentCommands } from "../../src/gateway/idempotent-commands.ts";
import type { MessageId } from "../../src/protocol/ids.ts";
import { newId } from "../../src/system/new-id.ts";

const store = { secret: "secret" } as never;
const commands = new IdempotentCommands({ store } as never);
const history = new StagedHistory({ store, newId: () => "1" } as never);

const MAKERS: [what: string, make: (n: number) => string | Promise<string>][] = [
  ["a new id", newId],
  [
    "an id derived from a key",
    (n) => commands.deriveId({ caller: { id: "ann" }, commandId: `${n}` } as never, "session"),
  ],
  ["the id of a copied message", (n) => history.idFor(`${n}` as MessageId)],
  [
    "the id of a page's message",
    (n) => {
      const last = { id: `no id: ${n}`, role: "user", parts: [{ type: "text", text: "x" }] };
      return (readLast({ messages: [last] } as never) as { chat: { id: string } }).chat.id;
    },
  ],
  [
    "a key",
    async (n) => {
      let key = "";
      await newKey(`${n}`, {}, { write: (text) => (key += text) }, { write: () => {} });
      return key;
    },
  ],
];

test.each(MAKERS)("%s is no option of a command line: it does not begin with a dash", async (_, make) => {
  const ids = new Set<string>();
  for (let n = 0; n < 2_000; n++) ids.add(await make(n));
  expect([...ids].filter((id) => id.startsWith("-"))).toEqual([]);
  expect(ids.size).toBe(2_000);
});
