import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { axeFaults } from "../../support/browsers/axe.ts";
import { describePage, startPageNode } from "../../support/browsers/page-stage.ts";
import { CAR } from "../../support/catalogs/car-catalog.ts";
import { E2E_AGENTS, makeClerk } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const radio = { name: "radio", priority: 15, lease: "1h", adapter: { kind: "external" } };
const provider = await startProviderServer();
afterAll(() => provider.close());
const agents = [...E2E_AGENTS, ...CAR, radio, makeClerk(provider.baseUrl)];
const node = await startPageNode({ agents, catalog: {} });

const SIZES = [
  { width: 320, height: 640 },
  { width: 390, height: 844 },
  { width: 1280, height: 720 },
  { width: 1920, height: 1080 },
];
/** Each theme once, and each language once: what fits depends on the language, and contrast on the theme. */
const LOOKS = [
  { colorScheme: "light", locale: "en-US" },
  { colorScheme: "dark", locale: "zh-CN" },
] as const;

/** An element that each view has once it is rendered, in any language. */
const VIEWS: readonly (readonly [path: (floor: string, asked: string) => string, drawn: string])[] = [
  [() => "", "main form"],
  [(floor) => `floor/${floor}`, "[data-front=true]"],
  [(floor) => `session/${floor}`, "main input[type=search]"],
  [(floor, asked) => `session/${floor}/${asked}`, "main textarea"],
  [() => `session/${summarised}`, "main section details"],
  [(floor, asked) => `machine/${floor}/${asked}`, "[data-lit=true]"],
  [(floor) => `timeline/${floor}`, "main canvas"],
  [(floor) => `sequence/${floor}`, "main li[aria-posinset] time"],
  [(floor) => `policy/${floor}`, "main table"],
  [(floor) => `node/${floor}`, "main dl"],
  [() => "floor/u%3Anobody-was-here", "main #floor"],
  [(floor) => `session/${floor}/nowhere`, "main [role=alert]"],
];

let floor = "";
let asked = "";
let summarised = "";

/** A session of an agent with modes, with a summary. */
async function summarise(): Promise<string> {
  const ben = new E2eClient(node);
  const { id, floorId } = await ben.hold("clerk");
  provider.willReply({ kind: "stream", text: ["Yes."] }, { kind: "stream", text: ["A **yes**."] });
  await ben.talk(id, "Is it?");
  const stream = await ben.follow(id);
  await accepted(node.post(`/session/${id}/summarize`));
  await stream.find(({ type, data }) => type === "message" && data["role"] === "system");
  return `${encodeURIComponent(floorId)}/${id}`;
}

/** A floor with every kind of card: in front, ducked, paused with a held question, waiting; and a refusal. */
beforeAll(async () => {
  const ann = new E2eClient(node);
  const general = await ann.hold("general");
  const stream = await ann.follow(general.id);
  await ann.talk(general.id, "browse");
  await accepted(ann.say(general.id, "delete it"));
  await stream.find("tool_confirmation_request");
  await ann.hold("listen_agent");
  await ann.hold("chime_agent");
  await accepted(ann.on((await ann.create("patient")).id, "activate"));
  await ann.askToCreate({ agentId: "chat", activate: true });
  await createClient({ baseUrl: node.url }).changeFlags(general.floorId, { night: true });
  floor = encodeURIComponent(general.floorId);
  asked = general.id;
  summarised = await summarise();
});

/** The elements that make the page wider than its screen, if any. */
const beyondScreen = (page: Page) =>
  page.evaluate<string[]>(`document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.body.querySelectorAll("*")]
      .filter((each) => each.getBoundingClientRect().right > innerWidth)
      .map((each) => each.cloneNode().outerHTML)`);

/** Resizes a page, and waits until the parts that it shows at this size are drawn. */
async function resize(page: Page, size: (typeof SIZES)[number]): Promise<void> {
  await page.setViewportSize(size);
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
}

describePage("every view", (open) => {
  test.each(LOOKS)(
    "the page fits the screen at four sizes, and passes axe: $colorScheme $locale",
    async ({ colorScheme, locale }) => {
      const page = await open(node.url, { colorScheme, locale, viewport: SIZES[0]!, expected: /404/ });
      for (const [place, [path, drawn]] of VIEWS.entries()) {
        const name = path("floor", "session");
        await page.setViewportSize(SIZES[0]!);
        await page.goto(`${node.url}/#/${path(floor, asked)}`);
        await page.locator(drawn).first().waitFor();
        for (const size of SIZES) {
          await resize(page, size);
          expect(await beyondScreen(page), `${name} at ${size.width}`).toEqual([]);
        }
        await resize(page, SIZES[place % SIZES.length]!);
        expect(await axeFaults(page), name).toEqual([]);
      }
    },
    180_000,
  );
});
