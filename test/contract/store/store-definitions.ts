import { describe, expect, test } from "vitest";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as AgentId;

export function definitionContract(stage: StoreStage): void {
  const receipt = (commandId: string) => ({ caller: "ops", commandId, bodyHash: "b", reply: '{"ok":true}', at: NOON });
  const change = (expected: number, body: string | undefined, commandId: string) =>
    stage.store.changeDefinition({ id: A, expected, body, receipt: receipt(commandId) });

  describe("definitions of agents", () => {
    test("a new store has no definitions, and no list of floors contains the floor of their receipts", async () => {
      const { store } = stage;
      expect([await store.listDefinitions(), await store.definitionsVersion()]).toEqual([[], 0]);
      expect(await change(0, "{}", "c")).toBe("saved");
      expect((await store.listFloors({ limit: 9 })).floors).toEqual([]);
    });

    test("a definition is compared and set on its version, and one number shows each change", async () => {
      const { store } = stage;
      const versions = [await store.definitionsVersion()];
      for (const [expected, body, outcome] of [
        [0, "one", "saved"],
        [0, "again", "conflict"],
        [2, "late", "conflict"],
        [1, "two", "saved"],
      ] as const) {
        expect(await change(expected, body, `c${versions.length}-${body}`)).toBe(outcome);
        if (outcome === "saved") versions.push(await store.definitionsVersion());
      }
      expect(versions).toEqual([...new Set(versions)].sort((one, other) => one - other));
      expect(await store.listDefinitions()).toEqual([{ id: A, version: 2, body: "two" }]);
      expect(await change(1, undefined, "d1")).toBe("conflict");
      expect(await change(2, undefined, "d2")).toBe("saved");
      expect(await store.listDefinitions()).toEqual([]);
    });

    test("a definition is changed together with its receipt, or not at all", async () => {
      const { store } = stage;
      expect(await change(0, "one", "key")).toBe("saved");
      const [found] = await store.findReceipts([{ caller: "ops", commandId: "key" }]);
      expect(found).toEqual({ ...receipt("key"), floorId: "" });
      expect(await change(1, "two", "key")).toBe("conflict");
      expect(await store.listDefinitions()).toEqual([{ id: A, version: 1, body: "one" }]);
      await Promise.all(["x", "y", "z"].map((commandId) => change(1, commandId, commandId)));
      expect((await store.listDefinitions())[0]?.version).toBe(2);
    });

    test("definitions are read in pages that end with the row that reaches the size limit", async () => {
      const { store } = stage;
      const ids = Array.from({ length: 40 }, (_, index) => `agent-${String(index).padStart(2, "0")}_x` as AgentId);
      const body = "x".repeat(100_000);
      for (const id of ids) await store.changeDefinition({ id, expected: 0, body, receipt: receipt(`heavy-${id}`) });
      const pages: string[][] = [];
      for (let page = await store.listDefinitions(); page.length > 0; ) {
        pages.push(page.map(({ id }) => id));
        page = await store.listDefinitions(page.at(-1)!.id);
      }
      expect(pages.flat()).toEqual(ids);
      expect(pages.map(({ length }) => length)).toEqual([11, 11, 11, 7]);
    });

    test("definitions survive a restart", async () => {
      await change(0, "kept", "c");
      if (stage.isLasting) await stage.reopen();
      expect(await stage.store.listDefinitions()).toEqual([{ id: A, version: 1, body: "kept" }]);
    });
  });
}
