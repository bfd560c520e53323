import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { readPage } from "../../docs/page.ts";
import { buildPage } from "../../support/browsers/built-page.ts";
import { describeInChromium } from "../../support/browsers/chromium.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { OUTSIDE_MODULES } from "../../support/documents/outside-programs.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

const PAGE = fileURLToPath(new URL("../../outside-programs/chat-page", import.meta.url));
const NAME = "useChat of the page docs/use/doors.md, in React";

/**
 * A page with the code block of the docs, unchanged except for the address, built below the packages that it imports.
 */
async function buildChat(): Promise<string> {
  const { text } = readPage("docs/use/doors.md").blocks.find(({ info }) => info === "tsx chat")!;
  const folder = await mkdtemp(join(OUTSIDE_MODULES, ".chat-page-"));
  try {
    await cp(PAGE, folder, { recursive: true });
    await writeFile(join(folder, "use-agent.ts"), text.replace('"http://127.0.0.1:3000/api/chat"', '"/api/chat"'));
    return await buildPage(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

describeInChromium(
  NAME,
  (open) => {
    let node: NodeUnderTest;
    beforeAll(async () => {
      node = await NodeUnderTest.start({ pageFolder: await buildChat() });
    });
    afterAll(() => node.stop());
    /** The next chat has the floor of the page's user. */
    afterEach(async () => {
      const { holder } = await accepted(node.get("/floor/u%3Aalice"));
      if (holder) await accepted(node.post(`/session/${holder.id}/stop`));
    });

    async function openChat(id: string) {
      const opened = await open(`${node.url}/?chat=${id}`);
      const { page } = opened;
      const messages = page.getByRole("list", { name: "messages" }).getByRole("listitem");
      return {
        ...opened,
        click: (name: string) => page.getByRole("button", { name, exact: true }).click(),
        /** Resolves when the page shows these messages, and no reply is in progress. */
        async shows(...texts: string[]) {
          await page.getByLabel("status").getByText("ready").waitFor();
          await expect.poll(() => messages.allInnerTexts()).toEqual(texts);
        },
      };
    }

    /** The messages of a chat's newest session. */
    async function kept(id: string): Promise<string[]> {
      const { session } = await accepted(node.get(`/session/${id}`));
      if (session.replacedBy) return kept(session.replacedBy);
      return (await node.messages(id)).map(({ content }) => content);
    }

    test("useChat talks, regenerates and edits, and the session has what the page shows", async () => {
      const id = node.newId("talk");
      const { click, shows } = await openChat(id);
      await click("hello");
      await shows("hello", "Hello there.");
      await click("again");
      await shows("hello", "Hello there.");
      expect(await kept(id)).toEqual(["hello", "Hello there."]);
      await click("nod");
      await shows("hello", "Hello there.", "nod", "Yes.");
      await click("edit");
      await shows("nod", "Yes.");
      expect(await kept(id)).toEqual(["nod", "Yes."]);
    });

    test("useChat continues a reply after the user's consent, in the same message", async () => {
      const { click, shows } = await openChat(node.newId("consent"));
      await click("delete");
      await click("approve");
      await shows("delete", "Deleted.");
    });

    test("useChat resumes the reply in progress when the page is reloaded", async () => {
      const { page, click, shows } = await openChat(node.newId("reload"));
      await click("count");
      await page.getByText("tick tick").waitFor();
      await page.reload();
      await shows("tick ".repeat(40).trim());
    });
  },
  ["outsidePrograms"],
);
